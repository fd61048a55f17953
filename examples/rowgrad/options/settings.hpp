#pragma once

#include <map>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/options.hpp>

namespace rowgrad {

/// The source of a value. The highest source wins. kOptionsOfRun is an options file written by a
/// run, which lists all options, including options without effect.
enum class Source { kDefault, kPreset, kSavedRun, kOptionsOfRun, kOptionsFile, kCommandLine };

/// The values of a program's options, each with its source.
class Settings {
 public:
  /// Takes the current values of the variables as defaults.
  explicit Settings(OptionTable options);

  const OptionTable& options() const { return options_; }

  /// Sets the values of options in a source. Throws std::invalid_argument for a value that the
  /// option's rules reject and, like all functions here, for an unknown option.
  /// Messages name `file`, the origin of the values.
  void add(Source source, const Json& values, const std::string& file = "");
  /// Sets one option's value, given as words.
  void add_words(Source source, const std::string& option, const std::vector<std::string>& words);

  /// Removes an option's value from a source, except kDefault.
  void remove(Source source, const std::string& option);

  /// Removes values of the options file that lose their effect because a higher source set another
  /// option.
  void remove_overridden();

  /// Returns the value of the highest source.
  const Json& operator[](const std::string& option) const;
  /// Returns the value of the highest source below `limit`.
  const Json& below(Source limit, const std::string& option) const;

  /// Returns the highest source with a value.
  Source source(const std::string& option) const;
  /// Returns true if an options file or the command line sets the option.
  bool is_given(const std::string& option) const { return source(option) >= Source::kOptionsOfRun; }

  /// Returns the name of an option for messages: --width, or file: "width" if a file sets it.
  std::string named(const std::string& option) const;

  /// Throws std::invalid_argument if options set by the user cannot be combined.
  void check_combinations() const;
  /// Calls check_combinations(), and checks applies_when conditions.
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
  std::map<std::string, Values> values_;  // by option name
  std::string file_;                      // options file, for messages; "" for none
};

}  // namespace rowgrad
