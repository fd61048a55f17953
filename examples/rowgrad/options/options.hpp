#pragma once

// The options of a program as a table, which says all that is known of each: from it are made the
// command line and its help, their JSON, presets, the comparison of a resumed run with the saved
// one, and the errors for options without an effect. CLI11, which reads command lines, is included
// in options.cpp alone, as it takes seconds to compile.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace rowgrad {

constexpr double kAnyNumber = std::numeric_limits<double>::max();
constexpr std::uint64_t kAnyWhole = std::numeric_limits<std::uint64_t>::max();

/// An option has an effect only where another has one of these values; or, with none here, where it
/// is neither 0 nor an empty list.
struct Condition {
  std::string option;
  std::vector<std::string> values = {};
};

/// What an option demands of its value, and of other options.
struct OptionRules {
  std::string shown = {};                                       // in the help, for the value
  std::function<std::string(const std::string&)> refusal = {};  // of a text, or ""; null for none
  bool may_be_file = false;  // which a JSON may name before it is there, or when it is gone

  bool required = false;
  std::vector<std::string> needs = {};     // other options that must be given, too,
  std::vector<std::string> excludes = {};  // and that must not be
  std::vector<Condition> is_for = {};      // all of them
  bool may_change = false;                 // when a run is resumed
};

/// Those of both, of which one at most says what values are: `whole_number(1) + needs("--run")`.
OptionRules operator+(OptionRules rules, OptionRules others);

OptionRules required();
OptionRules needs(std::string option);
OptionRules excludes(std::vector<std::string> options);
OptionRules is_for(std::string option, std::vector<std::string> values = {});
OptionRules may_change();

/// A whole number in [least, most], written in digits only, by default at most twelve.
OptionRules whole_number(std::uint64_t least, std::uint64_t most = 999'999'999'999);

/// A finite number in [low, high].
OptionRules finite_number(double low, double high = kAnyNumber);

/// Refuses "", which a shell passes for a variable that is not set.
OptionRules file_name(std::string shown = "FILE");
OptionRules existing_file();

OptionRules one_of(const std::vector<std::string>& names);

/// A value of --tokenizer.
OptionRules tokenizer_choice();

/// A value that is given by a name, such as that of an enumeration: see choice().
struct Choice {
  std::vector<std::string> names;
  std::function<std::size_t()> get;  // the index of its name
  std::function<void(std::size_t)> set;
};

/// `choice(options.gelu, {{"tanh", Gelu::kTanh}, {"erf", Gelu::kErf}})`; `value` must be one of
/// these.
template <class Value>
Choice choice(Value& value,
              const std::vector<std::pair<std::string, std::type_identity_t<Value>>>& names) {
  std::vector<std::string> texts;
  for (const auto& [name, meant] : names) texts.push_back(name);
  const auto get = [&value, names] {
    std::size_t i = 0;
    while (names.at(i).second != value) ++i;
    return i;
  };
  return {texts, get, [&value, names](std::size_t i) { value = names.at(i).second; }};
}

struct Option {
  std::string name;  // "--weight-decay"; an argument without a name is in upper case: "FILE"
  // Its default, which the value that is given replaces. A bool is a flag with a --no-….
  std::variant<bool*, std::uint64_t*, double*, std::string*, std::vector<std::string>*,
               std::vector<std::uint64_t>*, Choice>
      value;
  std::string help;
  OptionRules rules = {};  // nothing need be said of the values of a flag and a Choice
  /// What --help-all lists it under. Without one, --help lists it, too.
  std::string heading = {};
};

using OptionTable = std::vector<Option>;

/// The heading of options that no help lists.
constexpr const char* kHidden = "hidden";

/// The tables one after another.
OptionTable joined(const std::vector<OptionTable>& tables);

/// The same options, all under this heading, or those with these `names`.
OptionTable under(const std::string& heading, OptionTable options,
                  const std::set<std::string>& names = {});

/// The option of that name, or null.
const Option* find(const OptionTable& options, const std::string& name);

/// The value as JSON.
std::string json_of(const Option& option);

/// All values that are not empty, by name, as on a command line.
std::map<std::string, std::string> texts_of(const OptionTable& options);

/// All values as a JSON object; --weight-decay is "weight_decay".
std::string to_json(const OptionTable& options);

/// Sets all of them. Throws std::invalid_argument for an object without one of them, with something
/// else, or with a value that the command line would refuse. Names of files are left to those who
/// use them.
void from_json(const OptionTable& options, const std::string& json);

/// Sets those that the JSON object has. Throws as from_json().
void set_some(const OptionTable& options, const std::string& json);

/// A table of options that is set from the arguments of a program.
class CommandLine {
 public:
  /// `program` is "rowgrad train", and `about` what it does, for --help.
  CommandLine(std::string program, std::string about, OptionTable options);

  /// Reads the arguments and calls `complete`, also before it prints the help, which then shows
  /// presets. Ends the program (EndOfProgram) after --help and after an error, which it prints.
  /// Throws std::invalid_argument for an option that was given but has no effect, as another one
  /// has the value that it has.
  void parse(int argc, const char* const* argv, const std::function<void()>& complete = {});

  bool was_given(const std::string& name) const;

  /// Whether its value is another than it was before, or than a preset.
  bool was_changed(const std::string& name) const;

  /// Presets: sets those options that a JSON object has and that were not given. Throws
  /// std::invalid_argument as from_json.
  void set_if_not_given(const std::string& json);

  /// Options in a JSON object, as a run saves it: as if given, but an option of the command line
  /// goes before, and nobody has to mean all of them, so none is refused for having no effect.
  /// `name` is that of the file, for messages. Where --epochs is given, its steps and warm-up do
  /// not count. Throws std::invalid_argument as from_json, and where another --model or --optimizer
  /// is given than that whose options the file has.
  void take_file(const std::string& json, const std::string& name);

  const OptionTable& options() const { return options_; }

  /// The name of the program, and the command with the options that were given, quoted for a shell.
  const std::string& program() const { return program_; }
  std::string repeated() const;

 private:
  void check_effects() const;

  std::string program_;
  std::string about_;
  OptionTable options_;
  std::map<std::string, std::string> defaults_;
  std::map<std::string, std::vector<std::string>> given_;  // values as they were written, by name
  std::set<std::string> in_file_;                          // names
};

}  // namespace rowgrad
