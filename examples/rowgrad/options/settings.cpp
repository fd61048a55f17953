#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/rowgrad/options/settings.hpp>

namespace rowgrad {

Settings::Settings(OptionTable options) : options_(std::move(options)) {
  for (const Option& option : options_) values_[option.name][Source::kDefault] = value_of(option);
}

void Settings::add(Source source, const Json& values, const std::string& file) {
  if (!file.empty()) file_ = file;
  try {
    for (const auto& [key, value] : values.members()) {
      const Option& option = option_for(options_, key);
      values_[option.name][source] = parse_json(option, value);
    }
  } catch (const std::invalid_argument& error) {
    throw_invalid_argument({file, file.empty() ? "" : ": ", error.what()});
  }
}

void Settings::add_words(Source source, const std::string& option,
                         const std::vector<std::string>& words) {
  values_of(option);
  values_[option][source] = parse_words(*find(options_, option), words);
}

void Settings::remove(Source source, const std::string& option) {
  values_of(option);
  check_argument(source != Source::kDefault, option, ": its default cannot be removed");
  values_[option].erase(source);
}

void Settings::remove_overridden() {
  std::set<std::string> removed;
  const auto is_overridden = [&](const Option& option) {
    const Source from = source(option.name);
    if (from != Source::kOptionsOfRun && from != Source::kOptionsFile) return false;
    return std::ranges::any_of(option.rules.applies_when, [&](const Condition& condition) {
      return !holds(condition) &&
             (removed.contains(condition.option) || source(condition.option) > from);
    });
  };
  std::size_t before = 0;
  do {  // removing an option may disable others
    before = removed.size();
    for (const Option& option : options_)
      if (is_overridden(option)) {
        remove(source(option.name), option.name);
        removed.insert(option.name);
      }
  } while (removed.size() > before);
}

const Settings::Values& Settings::values_of(const std::string& option) const {
  const auto found = values_.find(option);
  check_argument(found != values_.end(), "Settings: unknown option ", option);
  return found->second;
}

const Json& Settings::operator[](const std::string& option) const {
  return values_of(option).rbegin()->second;
}

const Json& Settings::below(Source limit, const std::string& option) const {
  check_argument(limit > Source::kDefault, option, " has no value below its default");
  return std::prev(values_of(option).lower_bound(limit))->second;
}

Source Settings::source(const std::string& option) const {
  return values_of(option).rbegin()->first;
}

std::string Settings::named(const std::string& option) const {
  const Source from = source(option);
  if (from != Source::kOptionsOfRun && from != Source::kOptionsFile) return option;
  return concat(file_, file_.empty() ? "" : ": ", in_quotes(key_of(*find(options_, option))));
}

bool Settings::is_set(const std::string& option) const {
  return source(option) >= Source::kOptionsFile;
}

// Returns true if the user has set the option, except to an "off" value such as 0 that is also its
// default.
bool Settings::is_on(const std::string& option) const {
  static const std::set<std::string> off{"false", "0", "0.0", "\"\"", "[]"};
  const std::string value = (*this)[option].dump();
  return is_set(option) &&
         (!off.contains(value) || value != below(Source::kOptionsOfRun, option).dump());
}

bool Settings::holds(const Condition& condition) const {
  if (find(options_, condition.option) == nullptr) return true;  // not an option of this program
  const std::string value = text_of((*this)[condition.option]);
  return condition.values.empty() ? !value.empty() && value != "0"
                                  : std::ranges::count(condition.values, value) > 0;
}

void Settings::check_combinations() const {
  for (const Option& option : options_) {
    if (!is_on(option.name)) continue;
    for (const std::string& other : option.rules.needs)
      check_argument(is_on(other), named(option.name), " requires ", other);
    for (const std::string& other : option.rules.excludes)
      check_argument(!is_on(other), named(option.name), " cannot be used with ", other);
  }
}

void Settings::check_condition(const Option& option, const Condition& condition) const {
  if (holds(condition)) return;
  const auto& [name, values] = condition;
  const std::string json = (*this)[name].dump(), text = text_of((*this)[name]);
  check_argument(json != "[]", named(option.name), " requires ", name);
  std::string expected = values.empty() ? "above 0" : values[0];
  for (std::size_t i = 1; i < values.size(); ++i)
    expected += (i + 1 < values.size() ? ", " : " or ") + values[i];
  throw_invalid_argument({named(option.name), " requires ", name, " ", expected, ", got ",
                          json.starts_with('"') ? json : text});
}

void Settings::check() const {
  check_combinations();
  for (const Option& option : options_)
    if (is_set(option.name))
      for (const Condition& condition : option.rules.applies_when)
        check_condition(option, condition);
}

void Settings::fill() const {
  for (const Option& option : options_) assign(option, (*this)[option.name]);
}

}  // namespace rowgrad
