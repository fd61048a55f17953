#include <algorithm>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/rowgrad/options/settings.hpp>

namespace rowgrad {

Settings::Settings(OptionTable options) : options_(std::move(options)) {
  for (const Option& option : options_) values_[option.name][Source::kDefault] = value_of(option);
}

void Settings::add(Source source, const Json& values) {
  for (const auto& [key, value] : values.members()) {
    const Option& option = option_for(options_, key);
    values_[option.name][source] = parse_json(option, value);
  }
}

void Settings::add_words(Source source, const std::string& option,
                         const std::vector<std::string>& words) {
  values_.at(option)[source] = parse_words(*find(options_, option), words);
}

void Settings::remove(Source source, const std::string& option) {
  values_.at(option).erase(source);
}

const Json& Settings::operator[](const std::string& option) const {
  return values_.at(option).rbegin()->second;
}

const Json& Settings::below(Source limit, const std::string& option) const {
  return std::prev(values_.at(option).lower_bound(limit))->second;
}

Source Settings::source(const std::string& option) const {
  return values_.at(option).rbegin()->first;
}

bool Settings::is_set(const Option& option) const {
  const Source from = source(option.name);
  return from == Source::kCommandLine ||
         (from == Source::kOptionsFile &&
          (*this)[option.name].dump() != below(from, option.name).dump());
}

void Settings::check() const {
  const auto is_set = [&](const std::string& name) { return this->is_set(*find(options_, name)); };
  for (const Option& option : options_) {
    if (!this->is_set(option)) {
      check_argument(!option.rules.required, option.name, " is required: ", option.help);
      continue;
    }
    for (const std::string& other : option.rules.needs)
      check_argument(is_set(other), option.name, " requires ", other, ": ",
                     find(options_, other)->help);
    for (const std::string& other : option.rules.excludes)
      check_argument(!is_set(other), option.name, " excludes ", other);
  }
  for (const Option& option : options_)
    if (this->is_set(option)) check_applies(option);
}

void Settings::check_applies(const Option& option) const {
  for (const auto& [name, values] : option.rules.applies_when) {
    if (find(options_, name) == nullptr) continue;  // this program has one value of it
    if (source(option.name) < source(name)) continue;
    const Json& value = (*this)[name];
    check_argument(value.dump() != "[]", option.name, " is for ", name, ", which is not given");
    std::string expected = values.empty() ? "above 0" : values[0];
    for (std::size_t i = 1; i < values.size(); ++i)
      expected += (i + 1 < values.size() ? ", " : " and ") + values[i];
    const std::string text = text_of(value);
    check_argument(values.empty() ? text != "0" : std::ranges::count(values, text) > 0, option.name,
                   " is for ", name, ' ', expected, ", not for ", value.dump());
  }
}

void Settings::fill() const {
  for (const Option& option : options_) assign(option, (*this)[option.name]);
}

}  // namespace rowgrad
