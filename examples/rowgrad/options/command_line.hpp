#pragma once

#include <functional>
#include <string>

#include <rowgrad/examples/rowgrad/options/settings.hpp>

namespace rowgrad {

/// Returns the program's version, CPU level and BLAS kernel, for --version.
std::string program_version();

/// Exception that ends the program with status 0, after help.
struct EndOfProgram {};

/// Quotes a string for a shell if necessary.
std::string shell_word(const std::string& text);

/// The command line of a program.
class CommandLine {
 public:
  /// Adds presets and other sources to the settings of the command line. `reads_files` is false if
  /// only help will be printed: help shows presets but reads no files.
  using Complete = std::function<void(Settings& settings, bool reads_files)>;

  /// `program` is a name such as "rowgrad train"; `about` describes it in the help.
  CommandLine(std::string program, std::string about, OptionTable options);

  /// Parses the arguments, calls `complete`, and sets the variables of the options. Throws
  /// std::invalid_argument for invalid arguments, and EndOfProgram after --help and --version.
  void parse(int argc, const char* const* argv, const Complete& complete = {});

  /// Returns true if the command line or an options file sets the option.
  bool was_given(const std::string& name) const { return settings_.is_given(name); }

  const OptionTable& options() const { return settings_.options(); }

  /// Return the program's name, and its command with all arguments, quoted for a shell.
  const std::string& program() const { return program_; }
  std::string repeated() const;

 private:
  std::string usage() const;
  void print_help(bool all) const;

  std::string program_;
  std::string about_;
  Settings settings_;
};

}  // namespace rowgrad
