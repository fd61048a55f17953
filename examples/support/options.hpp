#pragma once

// The options of a program as a table, which says all that is known of each: from it are made the
// command line and its help, their JSON, presets, the comparison of a resumed run with the saved
// one, and the errors for options without an effect.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace rowgrad {

constexpr double kAnyNumber = std::numeric_limits<double>::max();
constexpr std::uint64_t kAnyWhole = std::numeric_limits<std::uint64_t>::max();

/// The values that an option takes.
struct Values {
  std::string shown = {};                                       // in the help
  std::function<std::string(const std::string&)> refusal = {};  // of a text, or ""; null for none
  bool can_be_off = false;                                      // a flag with a --no-…
};

/// A whole number in [least, most], written in digits only, by default at most twelve.
Values whole_number(std::uint64_t least, std::uint64_t most = 999'999'999'999);

/// A finite number in [low, high].
Values finite_number(double low, double high = kAnyNumber);

/// Refuses "", which a shell passes for a variable that is not set.
Values file_name();
Values existing_file();

Values one_of(const std::vector<std::string>& names);
Values on_or_off();

/// A value of --tokenizer.
Values tokenizer_choice();

/// An option has an effect only where another has one of these values; or, with none here, where it
/// is neither 0 nor an empty list.
struct Condition {
  std::string option;
  std::vector<std::string> values = {};
};

struct OptionRules {
  bool required = false;
  std::vector<std::string> needs = {};     // other options that must be given, too,
  std::vector<std::string> excludes = {};  // and that must not be
  std::vector<Condition> is_for = {};      // all of them
  bool may_change = false;                 // when a run is resumed
};

OptionRules is_for(std::string option, std::vector<std::string> values = {});
OptionRules needs(std::string option);

struct Option {
  std::string name;  // "--weight-decay"; an argument without a name is in upper case: "FILE"
  // Its default, which the value that is given replaces. Without one, it is a flag that is given or
  // not.
  std::variant<std::monostate, bool*, std::uint64_t*, double*, std::string*,
               std::vector<std::string>*, std::vector<std::uint64_t>*>
      value;
  std::string help;
  Values values = {};
  OptionRules rules = {};
};

using OptionTable = std::vector<Option>;

/// The tables one after another.
OptionTable joined(const std::vector<OptionTable>& tables);

/// Those with these names, in this order.
OptionTable selected(const OptionTable& options, const std::vector<std::string>& names);

/// The option of that name, or null.
const Option* find(const OptionTable& options, const std::string& name);

/// Gives `to` the value of `from`, of the same type.
void copy(const Option& from, const Option& to);

/// The value as JSON.
std::string json_of(const Option& option);

/// All values that are not empty, by name, for people.
std::map<std::string, std::string> texts_of(const OptionTable& options);

/// All values as a JSON object, with `more` texts; --weight-decay is "weight_decay".
std::string to_json(const OptionTable& options,
                    const std::map<std::string, std::string>& more = {});

/// Sets all of them. Throws std::invalid_argument for an object without one of them or with a value
/// of another type.
void from_json(const OptionTable& options, const std::string& json);

/// Sets those that `json` has and `is_kept` is false for. Throws std::invalid_argument for what is
/// none of them.
void set_some(const OptionTable& options, const std::string& json,
              const std::function<bool(const std::string& name)>& is_kept);

}  // namespace rowgrad
