#pragma once

#include <map>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/options.hpp>

namespace rowgrad {

/// Where a value comes from. The highest source wins.
enum class Source { kDefault, kPreset, kSavedRun, kOptionsFile, kCommandLine };

/// The values of a program's options, each with its source.
class Settings {
 public:
  /// The defaults are the values that the variables have now.
  explicit Settings(OptionTable options);

  const OptionTable& options() const { return options_; }

  /// Adds values of a source, as JSON or as words. They replace earlier ones of the same source.
  /// Throws std::invalid_argument for an unknown option and a value that its rules refuse.
  void add(Source source, const Json& values);
  void add_words(Source source, const std::string& option, const std::vector<std::string>& words);

  /// Removes the value that a source has for an option.
  void remove(Source source, const std::string& option);

  /// Returns the value of the highest source, or of the highest source below `limit`.
  const Json& operator[](const std::string& option) const;
  const Json& below(Source limit, const std::string& option) const;

  /// Returns the highest source that has a value, and true if that is the options file or the
  /// command line.
  Source source(const std::string& option) const;
  bool is_given(const std::string& option) const { return source(option) >= Source::kOptionsFile; }

  /// Checks what options demand of each other. Only those that a user has set are checked. An
  /// options file may have all options of a run, so it sets those whose value it changes. A command
  /// line may override the conditions of a file's options. Throws std::invalid_argument.
  void check() const;

  /// Sets the variables of all options.
  void fill() const;

 private:
  bool is_set(const Option& option) const;
  void check_applies(const Option& option) const;

  OptionTable options_;
  std::map<std::string, std::map<Source, Json>> values_;  // by option
};

}  // namespace rowgrad
