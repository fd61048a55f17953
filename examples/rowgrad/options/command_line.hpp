#pragma once

#include <functional>
#include <string>

#include <rowgrad/examples/rowgrad/options/settings.hpp>

namespace rowgrad {

/// Returns the name and version of the program, and how it computes.
std::string program_version();

/// Ends a program with status 0, after help.
struct EndOfProgram {};

/// Returns a text as one word for a shell, in quotes if it needs them.
std::string shell_word(const std::string& text);

/// The command line of a program.
class CommandLine {
 public:
  /// Adds presets and other sources to the settings of the command line. `reads_files` is false
  /// before help, which shows presets but reads no file.
  using Complete = std::function<void(Settings& settings, bool reads_files)>;

  /// `program` is "rowgrad train", and `about` describes it in the help.
  CommandLine(std::string program, std::string about, OptionTable options);

  /// Reads the arguments, calls `complete`, and sets the variables of the options. Throws
  /// std::invalid_argument for wrong arguments and values, and as Settings::check(); and
  /// EndOfProgram after --help.
  void parse(int argc, const char* const* argv, const Complete& complete = {});

  /// Returns true if the command line or an options file has the option.
  bool was_given(const std::string& name) const { return settings_.is_given(name); }

  const OptionTable& options() const { return settings_.options(); }

  /// The name of the program, and the command with its options, quoted for a shell.
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
