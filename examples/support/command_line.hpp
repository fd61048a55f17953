#pragma once

// Reading a table of options from a command line. CLI11 does it, and is included in one source
// alone, as it takes seconds to compile.

#include <map>
#include <string>
#include <vector>

#include <rowgrad/examples/support/options.hpp>

namespace rowgrad {

class CommandLine {
 public:
  /// `about` is what the program does, for --help.
  CommandLine(std::string about, OptionTable options);

  /// Reads the arguments. Ends the program (EndOfProgram) after --help and after an error, which it
  /// prints.
  void parse(int argc, const char* const* argv);

  bool was_given(const std::string& name) const { return given_.contains(name); }

  /// Whether its value is another than it was before.
  bool was_changed(const std::string& name) const;

  /// Sets those options that a JSON object has and that were not given.
  void set_if_not_given(const std::string& json);

  /// Throws std::invalid_argument for an option that was given but has no effect, as another one
  /// has the value that it has. Values in `chosen` go before those of the command line.
  void check_effects(const OptionTable& chosen = {}) const;

  const OptionTable& options() const { return options_; }

  /// The name of the program, and it with the options that were given, quoted for a shell.
  const std::string& program() const { return program_; }
  std::string repeated() const;

 private:
  std::string about_;
  OptionTable options_;
  std::string program_;
  std::map<std::string, std::string> defaults_;
  std::map<std::string, std::vector<std::string>> given_;  // values as they were written, by name
};

}  // namespace rowgrad
