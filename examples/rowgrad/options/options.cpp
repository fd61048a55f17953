#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <tuple>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/rowgrad/options/options.hpp>

namespace rowgrad {

namespace {

// Returns the names as a placeholder such as "{word,char}".
std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "{" : ",") + name;
  return list + '}';
}

// Converts words that have been validated.
template <class Value>
Value parsed(const std::vector<std::string>& words) {
  if constexpr (std::is_same_v<Value, bool>) return words.back() == "true";
  if constexpr (std::is_same_v<Value, std::uint64_t>) return std::stoull(words.back());
  if constexpr (std::is_same_v<Value, double>) return std::strtod(words.back().c_str(), nullptr);
  if constexpr (std::is_same_v<Value, std::string>) return words.back();
  if constexpr (std::is_same_v<Value, std::vector<std::string>>) return words;
  if constexpr (std::is_same_v<Value, std::vector<std::uint64_t>>) {
    Value numbers;
    for (const std::string& word : words) numbers.push_back(std::stoull(word));
    return numbers;
  }
}

template <class Pointer>
using Pointed = std::remove_pointer_t<std::remove_cvref_t<Pointer>>;

Json typed(const Option& option, const std::vector<std::string>& words) {
  return std::visit(
      [&](const auto& value) {
        if constexpr (requires { *value; }) return Json(parsed<Pointed<decltype(value)>>(words));
        return Json(words.back());
      },
      option.value);
}

// Descriptions of the expected JSON, by the index of the variable's type in Option::value.
constexpr std::array<const char*, 7> kKinds{
    "true or false",     "a whole number",          "a number", "a string",
    "a list of strings", "a list of whole numbers", "a string"};

}  // namespace

OptionRules operator+(OptionRules rules, OptionRules others) {
  const auto add = [](auto& some, const auto& more) {
    some.insert(some.end(), more.begin(), more.end());
  };
  add(rules.needs, others.needs);
  add(rules.excludes, others.excludes);
  add(rules.applies_when, others.applies_when);
  rules.required |= others.required;
  rules.may_change |= others.may_change;
  rules.added_later |= others.added_later;
  rules.common |= others.common;
  if (others.validator)
    std::tie(rules.shown, rules.validator, rules.may_be_file) =
        std::tie(others.shown, others.validator, others.may_be_file);
  return rules;
}

OptionRules required() { return {.required = true}; }
OptionRules needs(std::string option) { return {.needs = {std::move(option)}}; }
OptionRules excludes(std::vector<std::string> options) { return {.excludes = std::move(options)}; }
OptionRules applies_when(std::string option, std::vector<std::string> values) {
  return {.applies_when = {{std::move(option), std::move(values)}}};
}
OptionRules may_change() { return {.may_change = true}; }
OptionRules added_later() { return {.added_later = true}; }
OptionRules common() { return {.common = true}; }

OptionRules whole_number(std::uint64_t least, std::uint64_t most) {
  return {"N", [least, most](const std::string& text) -> std::string {
            std::uint64_t number = 0;
            const char* end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            const bool octal = text.size() > 1 && text.front() == '0';
            if (error == std::errc() && rest == end && !octal && number >= least && number <= most)
              return {};
            return concat("got ", in_quotes(text), ", expected a whole number from ", least, " to ",
                          most);
          }};
}

OptionRules finite_number(double low, double high) {
  return {"X", [low, high](const std::string& text) -> std::string {
            char* end = nullptr;
            const double number = std::strtod(text.c_str(), &end);
            const bool whole = !text.empty() && *end == '\0';
            if (whole && std::isfinite(number) && number >= low && number <= high) return {};
            return concat("got ", in_quotes(text), ", expected ",
                          high == kAnyNumber ? concat("a finite number of at least ", low)
                                             : concat("a number from ", low, " to ", high));
          }};
}

OptionRules not_empty(std::string shown, std::string expected) {
  return {std::move(shown), [expected = std::move(expected)](const std::string& text) {
            return text.empty() ? "got an empty string, expected " + expected : "";
          }};
}

OptionRules file_name(std::string shown) {
  OptionRules rules = not_empty(std::move(shown), "a file name");
  rules.may_be_file = true;
  return rules;
}

OptionRules existing_file() {
  return {"FILE",
          [](const std::string& text) -> std::string {
            std::error_code error;
            if (std::filesystem::is_directory(text, error))
              return concat("got the folder ", text, ", expected a file");
            return std::filesystem::exists(text, error) ? "" : "no such file: " + text;
          },
          true};
}

OptionRules one_of(const std::vector<std::string>& names) {
  return {list_of(names), [names](const std::string& text) {
            const bool is_one = std::ranges::find(names, text) != names.end();
            return is_one ? ""
                          : concat("got ", in_quotes(text), ", expected one of ", list_of(names));
          }};
}

OptionRules tokenizer_choice() {
  return {"NAME",
          [name = one_of(kTokenizerNames).validator,
           file = existing_file().validator](const std::string& text) {
            const bool is_one = name(text).empty() || file(text).empty();
            return is_one ? std::string() : name(text) + " or an existing file";
          },
          true};
}

OptionTable joined(const std::vector<OptionTable>& tables) {
  OptionTable all;
  for (const OptionTable& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

OptionTable under(const std::string& heading, OptionTable options) {
  for (Option& option : options) option.heading = heading;
  return options;
}

const Option* find(const OptionTable& options, const std::string& name) {
  const auto found = std::ranges::find(options, name, &Option::name);
  return found == options.end() ? nullptr : &*found;
}

std::string key_of(const Option& option) {
  std::string key = option.name.starts_with("--") ? option.name.substr(2) : option.name;
  std::ranges::replace(key, '-', '_');
  return key;
}

const Option& option_for(const OptionTable& options, const std::string& key) {
  const auto option = std::ranges::find(options, key, key_of);
  check_argument(option != options.end(), "unknown option ", in_quotes(key));
  return *option;
}

bool is_flag(const Option& option) { return std::holds_alternative<bool*>(option.value); }

OptionRules rules_of(const Option& option) {
  if (option.rules.validator) return option.rules;
  return option.rules + std::visit(
                            [](const auto& value) -> OptionRules {
                              using Value = Pointed<decltype(value)>;
                              if constexpr (std::is_same_v<Value, Choice>)
                                return one_of(value.names);
                              if constexpr (std::is_same_v<Value, bool>)
                                return one_of({"true", "false"});
                              if constexpr (std::is_same_v<Value, double>) return finite_number(0);
                              if constexpr (std::is_same_v<Value, std::uint64_t> ||
                                            std::is_same_v<Value, std::vector<std::uint64_t>>)
                                return whole_number(0);
                              return {};
                            },
                            option.value);
}

Json value_of(const Option& option) {
  if (const auto* choice = std::get_if<Choice>(&option.value)) return choice->names[choice->get()];
  return std::visit(
      [](const auto& value) {
        if constexpr (requires { *value; }) return Json(*value);
        return Json();
      },
      option.value);
}

std::string json_of(const Option& option) { return value_of(option).dump(); }

std::vector<std::string> words_of(const Json& value) {
  const std::string text = value.dump();
  if (text[0] == '"') return {value.string()};
  if (text[0] != '[') return {text.ends_with(".0") ? text.substr(0, text.size() - 2) : text};
  std::vector<std::string> words;
  for (const Json& each : value.elements())
    for (std::string& word : words_of(each)) words.push_back(std::move(word));
  return words;
}

std::string text_of(const Json& value) {
  std::string text;
  for (const std::string& word : words_of(value)) text += (text.empty() ? "" : " ") + word;
  return text;
}

Json parse_words(const Option& option, const std::vector<std::string>& words) {
  if (const auto validator = rules_of(option).validator)
    for (const std::string& word : words)
      check_argument(validator(word).empty(), option.name, ": ", validator(word));
  return typed(option, words);
}

Json parse_json(const Option& option, const Json& value) {
  const std::string key = key_of(option), got = value.dump();
  const bool is_text = got[0] == '"';
  const auto is_list = [](const std::string& json) { return json[0] == '['; };
  if (is_list(got) == is_list(json_of(option))) {
    const std::vector<std::string> words = words_of(value);
    const OptionRules rules = rules_of(option);
    for (const std::string& word : words)
      if (rules.validator && !rules.may_be_file && !is_flag(option))
        check_argument(rules.validator(word).empty(), in_quotes(key), ": ", rules.validator(word));
    // A value of a different type, such as "8" for 8, does not survive the conversion unchanged.
    Json parsed = typed(option, words);
    if (const std::string text = parsed.dump(); text == got || text == got + ".0") return parsed;
  }
  throw_invalid_argument({in_quotes(key), ": got ", is_text ? "the string " : "",
                          in_quotes(is_text ? value.string() : got), ", expected ",
                          kKinds.at(option.value.index())});
}

void assign(const Option& option, const Json& value) {
  const std::vector<std::string> words = words_of(value);
  std::visit(
      [&](const auto& variable) {
        if constexpr (requires { *variable; })
          *variable = parsed<Pointed<decltype(variable)>>(words);
        else
          variable.set(static_cast<std::size_t>(std::ranges::find(variable.names, words.back()) -
                                                variable.names.begin()));
      },
      option.value);
}

std::map<std::string, std::string> texts_of(const OptionTable& options) {
  std::map<std::string, std::string> texts;
  for (const Option& option : options)
    if (const std::string text = text_of(value_of(option)); !text.empty())
      texts[option.name] = text;
  return texts;
}

std::string to_json(const OptionTable& options) {
  Json all;
  for (const Option& option : options) all[key_of(option)] = value_of(option);
  return all.dump();
}

}  // namespace rowgrad
