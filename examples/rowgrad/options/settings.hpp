#pragma once

#include <map>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/options.hpp>

namespace rowgrad {

/// Where a value comes from. The highest source wins. kOptionsOfRun is an options file that a run
/// wrote: it has all options, so some have no effect.
enum class Source { kDefault, kPreset, kSavedRun, kOptionsOfRun, kOptionsFile, kCommandLine };

/// The values of a program's options, each with its source.
class Settings {
 public:
  /// The defaults are the values that the variables have now.
  explicit Settings(OptionTable options);

  const OptionTable& options() const { return options_; }

  /// Adds values of a source, as JSON or as words. They replace earlier ones of the same source.
  /// Throws std::invalid_argument for a value that the option's rules refuse and, as all functions
  /// here, for an unknown option. Messages name the `file` of the values.
  void add(Source source, const Json& values, const std::string& file = "");
  void add_words(Source source, const std::string& option, const std::vector<std::string>& words);

  /// Removes the value that a source has for an option.
  void remove(Source source, const std::string& option);

  /// Removes the values of the options file that have no effect because a higher source set another
  /// option.
  void remove_overridden();

  /// Returns the value of the highest source, or of the highest source below `limit`.
  const Json& operator[](const std::string& option) const;
  const Json& below(Source limit, const std::string& option) const;

  /// Returns the highest source that has a value, and true if that is an options file or the
  /// command line.
  Source source(const std::string& option) const;
  bool is_given(const std::string& option) const { return source(option) >= Source::kOptionsOfRun; }

  /// Returns the name of an option for messages: --width, or file: "width" for a value of a file.
  std::string named(const std::string& option) const;

  /// Check what options that a user has set demand of each other: check_combinations() which others
  /// are set, and check() also their values. Throw std::invalid_argument.
  void check_combinations() const;
  void check() const;

  /// Sets the variables of all options.
  void fill() const;

 private:
  using Values = std::map<Source, Json>;

  const Values& values_of(const std::string& option) const;
  bool is_set(const std::string& option) const;
  bool is_on(const std::string& option) const;
  bool holds(const Condition& condition) const;
  void check_condition(const Option& option, const Condition& condition) const;

  OptionTable options_;
  std::map<std::string, Values> values_;  // by option
  std::string file_;                      // for messages; "" for none
};

}  // namespace rowgrad
