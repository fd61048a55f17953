#pragma once

#include <functional>
#include <string>

#include <rowgrad/examples/rowgrad/options/settings.hpp>

namespace rowgrad {

/// Returns the program's version, CPU level and BLAS kernel, for --version.
std::string program_version();

/// An exception that ends the program successfully after --help or --version.
struct EndOfProgram {};

/// Quotes a string for a shell if necessary.
std::string shell_word(const std::string& text);

/// The command line of a program.
class CommandLine {
 public:
  /// A function that adds presets and other sources to the settings. `reads_files` is false for
  /// help, which shows presets but reads no files.
  using Complete = std::function<void(Settings& settings, bool reads_files)>;

  /// Creates the command line of `program`, such as "rowgrad train". `about` describes the program
  /// in the help.
  CommandLine(std::string program, std::string about, OptionTable options);

  /// Parses the arguments, calls `complete`, and sets the variables of the options. Throws
  /// std::invalid_argument for invalid arguments, and EndOfProgram after --help and --version.
  void parse(int argc, const char* const* argv, const Complete& complete = {});

  /// Returns true if the command line or an options file sets the option.
  bool was_given(const std::string& name) const { return settings_.is_given(name); }

  const OptionTable& options() const { return settings_.options(); }

  /// Returns the program's name.
  const std::string& program() const { return program_; }
  /// Returns the command with all arguments, quoted for a shell.
  std::string repeated() const;

 private:
  std::string usage() const;
  void print_help(bool all) const;

  std::string program_;
  std::string about_;
  Settings settings_;
};

}  // namespace rowgrad
