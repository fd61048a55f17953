#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <type_traits>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/support/options.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>

namespace rowgrad {

namespace {

std::string key_of(const Option& option) {
  std::string key = option.name.substr(2);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

Json value_of(const Option& option) {
  return std::visit(
      [](auto value) {
        if constexpr (std::is_pointer_v<decltype(value)>) return Json(*value);
        return Json();
      },
      option.value);
}

struct Reading {
  const Json& json;

  void operator()(std::monostate) const {}
  void operator()(bool* value) const { *value = json.boolean(); }
  void operator()(std::uint64_t* value) const { *value = json.whole_number(); }
  void operator()(double* value) const { *value = json.number(); }
  void operator()(std::string* value) const { *value = json.string(); }
  void operator()(std::vector<std::string>* value) const { *value = json.strings(); }
  void operator()(std::vector<std::uint64_t>* value) const { *value = json.whole_numbers(); }
};

void set(const Option& option, const Json& value) {
  try {
    std::visit(Reading{value}, option.value);
  } catch (const std::runtime_error&) {
    throw_invalid_argument({in_quotes(key_of(option)), " cannot be ", in_quotes(value.dump())});
  }
}

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::uint64_t value) { return concat(value); }
std::string text_of(double value) { return concat(value); }
std::string text_of(const std::string& value) { return value; }
template <class Value>
std::string text_of(const std::vector<Value>& values) {
  std::string text;
  for (const Value& each : values) text += (text.empty() ? "" : " ") + text_of(each);
  return text;
}

}  // namespace

// The checks of CLI11 accept NaN and print limits of 300 digits.
Values whole_number(std::uint64_t least, std::uint64_t most) {
  return {concat("N >= ", least), [least, most](const std::string& text) -> std::string {
            std::uint64_t number = 0;
            const char* end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            const bool octal = text.size() > 1 && text.front() == '0';  // CLI11 takes 010 for 8
            if (error == std::errc() && rest == end && !octal && number >= least && number <= most)
              return {};
            return concat("got ", in_quotes(text), ", expected a whole number from ", least, " to ",
                          most);
          }};
}

Values finite_number(double low, double high) {
  return {"X", [low, high](const std::string& text) -> std::string {
            char* end = nullptr;
            const double number = std::strtod(text.c_str(), &end);
            const bool whole = !text.empty() && *end == '\0';
            if (whole && std::isfinite(number) && number >= low && number <= high) return {};
            return concat("got ", in_quotes(text), ", expected ",
                          high == kAnyNumber ? concat("a finite number from ", low, " on")
                                             : concat("a number from ", low, " to ", high));
          }};
}

Values file_name() {
  return {"FILE", [](const std::string& text) -> std::string {
            return text.empty() ? "got an empty text, expected the name of a file" : "";
          }};
}

Values existing_file() {
  return {"FILE", [](const std::string& text) -> std::string {
            std::error_code error;
            if (std::filesystem::is_directory(text, error))
              return "File is actually a directory: " + text;
            return std::filesystem::exists(text, error) ? "" : "File does not exist: " + text;
          }};
}

Values one_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "{" : ",") + name;
  list += '}';
  return {list, [names, list](const std::string& text) -> std::string {
            const bool is_one = std::ranges::find(names, text) != names.end();
            return is_one ? "" : text + " not in " + list;
          }};
}

Values on_or_off() { return {.can_be_off = true}; }

Values tokenizer_choice() {
  const Values name = one_of(kTokenizerNames), file = existing_file();
  return {concat('(', name.shown, ") OR (", file.shown, ')'), [=](const std::string& text) {
            const std::string no_name = name.refusal(text), no_file = file.refusal(text);
            if (no_name.empty() || no_file.empty()) return std::string();
            return concat('(', no_name, ") OR (", no_file, ')');
          }};
}

OptionRules is_for(std::string option, std::vector<std::string> values) {
  return {.is_for = {{std::move(option), std::move(values)}}};
}

OptionRules needs(std::string option) { return {.needs = {std::move(option)}}; }

OptionTable joined(const std::vector<OptionTable>& tables) {
  OptionTable all;
  for (const OptionTable& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

const Option* find(const OptionTable& options, const std::string& name) {
  const auto found = std::ranges::find(options, name, &Option::name);
  return found == options.end() ? nullptr : &*found;
}

OptionTable selected(const OptionTable& options, const std::vector<std::string>& names) {
  OptionTable some;
  for (const std::string& name : names) some.push_back(*find(options, name));
  return some;
}

void copy(const Option& from, const Option& to) { set(to, value_of(from)); }

std::string json_of(const Option& option) { return value_of(option).dump(); }

std::map<std::string, std::string> texts_of(const OptionTable& options) {
  std::map<std::string, std::string> texts;
  for (const Option& option : options)
    std::visit(
        [&](auto value) {
          if constexpr (std::is_pointer_v<decltype(value)>)
            if (const std::string text = text_of(*value); !text.empty()) texts[option.name] = text;
        },
        option.value);
  return texts;
}

std::string to_json(const OptionTable& options, const std::map<std::string, std::string>& more) {
  Json all;
  for (const auto& [key, text] : more) all[key] = text;
  for (const Option& option : options) all[key_of(option)] = value_of(option);
  return all.dump();
}

void from_json(const OptionTable& options, const std::string& text) {
  const Json all(text, "options");
  for (const Option& option : options) {
    const Json* value = all.find(key_of(option));
    check_argument(value != nullptr, in_quotes(key_of(option)), " is missing");
    set(option, *value);
  }
}

void set_some(const OptionTable& options, const std::string& text,
              const std::function<bool(const std::string& name)>& is_kept) {
  const Json all(text, "options");
  for (const auto& [key, value] : all.members()) {
    const auto option = std::ranges::find_if(
        options, [&key = key](const Option& each) { return key_of(each) == key; });
    check_argument(option != options.end(), "there is no option for ", in_quotes(key));
    if (!is_kept(option->name)) set(*option, value);
  }
}

}  // namespace rowgrad
