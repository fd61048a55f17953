#pragma once

// The options of a program as a table, which has the variable, the help text and the rules of each.
// Settings, JSON, the command line and its help are made from the table.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <rowgrad/core/base/json.hpp>

namespace rowgrad {

constexpr double kAnyNumber = std::numeric_limits<double>::max();
constexpr std::uint64_t kAnyWhole = std::numeric_limits<std::uint64_t>::max();

/// Holds if an option has one of `values` or, if there are none here, is neither 0 nor an empty
/// list.
struct Condition {
  std::string option;
  std::vector<std::string> values = {};
};

/// What an option demands of its value, and of other options that a user sets.
struct OptionRules {
  std::string shown = {};                                         // for the value in the help
  std::function<std::string(const std::string&)> validator = {};  // returns the error, or ""
  bool may_be_file = false;  // JSON may name a file that does not exist any more

  bool required = false;
  std::vector<std::string> needs = {};       // options that must also be set
  std::vector<std::string> excludes = {};    // options that must not be set
  std::vector<Condition> applies_when = {};  // all must hold
  bool may_change = false;                   // when a run is resumed
  bool common = false;                       // --help lists it, whatever its heading
};

/// The rules of both, at most one of which has a validator: `whole_number(1) + needs("RUN")`.
OptionRules operator+(OptionRules rules, OptionRules others);

OptionRules required();
OptionRules needs(std::string option);
OptionRules excludes(std::vector<std::string> options);
OptionRules applies_when(std::string option, std::vector<std::string> values = {});
OptionRules may_change();
OptionRules common();

/// A whole number in [least, most], written in digits only, by default at most twelve.
OptionRules whole_number(std::uint64_t least, std::uint64_t most = 999'999'999'999);

/// A finite number in [low, high].
OptionRules finite_number(double low, double high = kAnyNumber);

/// Refuses "", which a shell passes for a variable that is not set.
OptionRules file_name(std::string shown = "FILE");
OptionRules existing_file();

OptionRules one_of(const std::vector<std::string>& names);

/// A value of --tokenizer: one of the names, or a JSON file that Tokenizer::save wrote.
OptionRules tokenizer_choice();
inline const std::vector<std::string> kTokenizerNames{"word", "char", "gpt2", "bpe"};

/// A value that is given by its name, for example an enumerator. See choice().
struct Choice {
  std::vector<std::string> names;
  std::function<std::size_t()> get;  // returns the index of the value's name
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
  std::string name;  // "--weight-decay"; the name of an argument is in upper case: "FILE"
  // The variable, which has the default value until Settings::fill(). A bool is a flag with a
  // --no-….
  std::variant<bool*, std::uint64_t*, double*, std::string*, std::vector<std::string>*,
               std::vector<std::uint64_t>*, Choice>
      value;
  std::string help;
  // By default, numbers are at least 0, and a Choice has one of its names.
  OptionRules rules = {};
  std::string heading = {};  // --help-all lists the option under it; if empty, --help does also
};

using OptionTable = std::vector<Option>;

/// The tables one after another.
OptionTable joined(const std::vector<OptionTable>& tables);

/// The same options, all under this heading.
OptionTable under(const std::string& heading, OptionTable options);

/// The option of that name, or null.
const Option* find(const OptionTable& options, const std::string& name);

/// The option whose key in JSON is `key`: --weight-decay is "weight_decay". Throws
/// std::invalid_argument if there is none.
const Option& option_for(const OptionTable& options, const std::string& key);
std::string key_of(const Option& option);

bool is_flag(const Option& option);

/// The rules of an option, including those that follow from the type of its variable.
OptionRules rules_of(const Option& option);

/// The value of a variable, as JSON.
Json value_of(const Option& option);
std::string json_of(const Option& option);

/// A JSON value as the words of a command line, and the words joined by blanks.
std::vector<std::string> words_of(const Json& value);
std::string text_of(const Json& value);

/// Parse a value. Throw std::invalid_argument, with the name of the option or its key, for a value
/// that its rules refuse.
Json parse_words(const Option& option, const std::vector<std::string>& words);
Json parse_json(const Option& option, const Json& value);

/// Sets the variable to a parsed value.
void assign(const Option& option, const Json& value);

/// All values that are not empty, by option.
std::map<std::string, std::string> texts_of(const OptionTable& options);

/// All values as a JSON object.
std::string to_json(const OptionTable& options);

}  // namespace rowgrad
