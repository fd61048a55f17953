#pragma once

// A program's options as a table, with the variable, help text and rules of each option. Settings,
// JSON, the command line and its help use the table.

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

/// A condition that the value of `option` is one of `values` or, if `values` is empty, is neither 0
/// nor empty.
struct Condition {
  std::string option;
  std::vector<std::string> values = {};
};

/// The values that an option accepts, and its requirements on other options.
struct OptionRules {
  std::string shown = {};                                         // placeholder in the help
  std::function<std::string(const std::string&)> validator = {};  // returns the error, or ""
  bool may_be_file = false;  // JSON may name a file that no longer exists

  bool required = false;
  std::vector<std::string> needs = {};       // options that must also be set
  std::vector<std::string> excludes = {};    // options that must not be set
  std::vector<Condition> applies_when = {};  // conditions that must hold
  bool may_change = false;                   // a resumed run may change it
  bool added_later = false;                  // checkpoints without it have the default
  bool common = false;                       // listed by --help despite a heading
};

/// Combines rules: `whole_number(1) + needs("RUN")`. At most one operand may have a validator.
OptionRules operator+(OptionRules rules, OptionRules others);

// Each function sets the member of the same name.
OptionRules required();
OptionRules needs(std::string option);
OptionRules excludes(std::vector<std::string> options);
OptionRules applies_when(std::string option, std::vector<std::string> values = {});
OptionRules may_change();
OptionRules added_later();
OptionRules common();

/// Accepts whole numbers in [least, most], written in digits only.
OptionRules whole_number(std::uint64_t least, std::uint64_t most = 999'999'999'999);

/// Accepts finite numbers in [low, high].
OptionRules finite_number(double low, double high = kAnyNumber);

/// Rejects "", which shells pass for a variable that is not set.
OptionRules not_empty(std::string shown, std::string expected);
OptionRules file_name(std::string shown = "FILE");

OptionRules existing_file();

OptionRules one_of(const std::vector<std::string>& names);

/// Accepts the values of --tokenizer: a name, or a JSON file written by Tokenizer::save.
OptionRules tokenizer_choice();
inline const std::vector<std::string> kTokenizerNames{"word", "whitespace", "char", "gpt2", "bpe"};

/// A value chosen by name, for example an enumerator. See choice().
struct Choice {
  std::vector<std::string> names;
  std::function<std::size_t()> get;  // returns the index of the value's name
  std::function<void(std::size_t)> set;
};

/// Returns a Choice, as in `choice(options.gelu, {{"tanh", Gelu::kTanh}, {"erf", Gelu::kErf}})`.
/// Requires: `value` is one of the named values.
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
  std::string name;  // "--weight-decay"; an argument is in upper case: "FILE"
  // The variable, which holds the default until Settings::fill(). A bool is a flag with a --no-….
  std::variant<bool*, std::uint64_t*, double*, std::string*, std::vector<std::string>*,
               std::vector<std::uint64_t>*, Choice>
      value;
  std::string help;
  // By default, numbers must be at least 0.
  OptionRules rules = {};
  std::string heading = {};  // section of --help-all; if empty, --help also lists the option
};

using OptionTable = std::vector<Option>;

/// Concatenates tables.
OptionTable joined(const std::vector<OptionTable>& tables);

/// Sets the heading of all options.
OptionTable under(const std::string& heading, OptionTable options);

/// Returns the option with this name, or null.
const Option* find(const OptionTable& options, const std::string& name);

/// Returns the option with a JSON key such as "weight_decay", or throws std::invalid_argument.
const Option& option_for(const OptionTable& options, const std::string& key);
std::string key_of(const Option& option);

bool is_flag(const Option& option);

/// Returns the rules of an option, including rules implied by the variable's type.
OptionRules rules_of(const Option& option);

/// Return a variable's value as JSON.
Json value_of(const Option& option);
std::string json_of(const Option& option);

/// Return a JSON value as command line words, and as one string with spaces.
std::vector<std::string> words_of(const Json& value);
std::string text_of(const Json& value);

/// Parse a value. Throw std::invalid_argument, which names the option, if the option's rules reject
/// the value.
Json parse_words(const Option& option, const std::vector<std::string>& words);
Json parse_json(const Option& option, const Json& value);

/// Sets the option's variable to a value.
void assign(const Option& option, const Json& value);

/// Returns all nonempty values by option name.
std::map<std::string, std::string> texts_of(const OptionTable& options);

/// Returns all values as a JSON object.
std::string to_json(const OptionTable& options);

}  // namespace rowgrad
