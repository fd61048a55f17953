#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/rowgrad/options/options.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {

namespace {

std::string key_of(const Option& option) {
  std::string key = option.name.substr(2);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

const Option& option_for(const OptionTable& options, const std::string& key) {
  const auto option =
      std::ranges::find_if(options, [&](const Option& each) { return key_of(each) == key; });
  check_argument(option != options.end(), "there is no option for ", in_quotes(key));
  return *option;
}

bool is_flag(const Option& option) { return std::holds_alternative<bool*>(option.value); }

std::string off_name(const Option& option) { return "--no-" + option.name.substr(2); }

// One of the names, in braces.
std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "{" : ",") + name;
  return list + '}';
}

// The rules of an option, with those that follow from the type of its value.
OptionRules rules_of(const Option& option) {
  if (is_flag(option)) return option.rules + one_of({"true", "false"});
  const auto* choice = std::get_if<Choice>(&option.value);
  return choice != nullptr ? option.rules + one_of(choice->names) : option.rules;
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

// A value of a JSON as words of a command line.
std::vector<std::string> words_of(const Json& value) {
  const std::string text = value.dump();
  if (text[0] == '"') return {value.string()};
  if (text[0] != '[') return {text.ends_with(".0") ? text.substr(0, text.size() - 2) : text};
  std::vector<std::string> words;
  for (const Json& each : value.elements())
    for (std::string& word : words_of(each)) words.push_back(std::move(word));
  return words;
}

// Sets a value to words that the option takes.
struct Setting {
  const std::vector<std::string>& words;

  void operator()(bool* value) const { *value = words.back() == "true"; }
  void operator()(std::uint64_t* value) const { *value = std::stoull(words.back()); }
  void operator()(double* value) const { *value = std::strtod(words.back().c_str(), nullptr); }
  void operator()(std::string* value) const { *value = words.back(); }
  void operator()(std::vector<std::string>* value) const { *value = words; }
  void operator()(std::vector<std::uint64_t>* value) const {
    value->clear();
    for (const std::string& word : words) value->push_back(std::stoull(word));
  }
  void operator()(const Choice& choice) const {
    const auto name = std::ranges::find(choice.names, words.back());
    choice.set(static_cast<std::size_t>(name - choice.names.begin()));
  }
};

void set(const Option& option, const std::vector<std::string>& words) {
  std::visit(Setting{words}, option.value);
}

// What a JSON has for an option, by the index of its value.
constexpr std::array<const char*, 7> kKinds{
    "true or false",   "a whole number",          "a number", "a text",
    "a list of texts", "a list of whole numbers", "a text"};

void set(const Option& option, const Json& value) {
  const std::string name = key_of(option), got = value.dump();
  const auto is_list = [](const std::string& json) { return json[0] == '['; };
  if (is_list(got) == is_list(json_of(option))) {
    const std::vector<std::string> words = words_of(value);
    const OptionRules rules = rules_of(option);
    for (const std::string& word : words)
      if (rules.refusal && !rules.may_be_file && !is_flag(option))
        check_argument(rules.refusal(word).empty(), in_quotes(name), ": ", rules.refusal(word));
    set(option, words);
  }
  // What was of another kind, such as "8" for 8, is not the same as it was.
  const bool is_text = got[0] == '"';
  check_argument(json_of(option) == got || json_of(option) == got + ".0", in_quotes(name), ": got ",
                 is_text ? "the text " : "", in_quotes(is_text ? value.string() : got),
                 ", expected ", kKinds.at(option.value.index()));
}

std::string text_of(const Option& option) {
  std::string text;
  for (const std::string& word : words_of(value_of(option)))
    text += (text.empty() ? "" : " ") + word;
  return text;
}

CLI::Option* add(CLI::App& app, const Option& option) {
  if (is_flag(option))
    return app.add_flag(option.name + ",!" + off_name(option), *std::get<bool*>(option.value),
                        option.help);
  const auto set_it = [&option](const std::vector<std::string>& words) {
    set(option, words);
    return true;
  };
  const std::string shown = rules_of(option).shown;
  CLI::Option* added = app.add_option(option.name, set_it, option.help);
  added->type_name(shown == option.name ? "" : shown.empty() ? "TEXT" : shown);
  const bool has_numbers = std::holds_alternative<std::vector<std::uint64_t>*>(option.value);
  if (has_numbers) added->delimiter(',');
  if (has_numbers || std::holds_alternative<std::vector<std::string>*>(option.value))
    added->expected(CLI::detail::expected_max_vector_size);
  return added;
}

// Options as help2man reads them: "-h, --help", no {false} behind --no-…, and two blanks before the
// text, of which one is part of what stands before it. What options need, exclude and are for is
// said when it is missing.
class HelpFormatter : public CLI::Formatter {
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    // From 2.5 on, CLI11 puts the blanks itself.
    const bool is_old = CLI11_VERSION_MAJOR == 2 && CLI11_VERSION_MINOR < 5;
    std::string names;
    for (const char c : CLI::Formatter::make_option_name(option, is_positional))
      names += c == ',' && is_old ? std::string(", ") : std::string(1, c);
    return names.substr(0, names.find("{false}"));
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    const bool has_value = option->get_type_size() != 0 && !option->get_type_name().empty();
    const bool has_several = option->get_expected_max() > 1;
    return (has_value ? ' ' + option->get_type_name() : "") + (has_several ? " ... " : " ");
  }
};

// The default of an option behind what the help says of it. One that could not be given, such as 0
// threads, is left to the text.
void describe(CLI::Option& added, const Option& option, std::string value) {
  const OptionRules rules = rules_of(option);
  const bool can_be_given = !value.empty() && (!rules.refusal || rules.refusal(value).empty());
  if (is_flag(option)) value = value == "true" ? "on" : "off";
  std::replace(value.begin(), value.end(), ' ', ',');
  if (can_be_given) added.description(concat(option.help, " (default: ", value, ')'));
}

// "" without such options.
std::string names_of_hidden(const OptionTable& options) {
  constexpr std::size_t kColumns = 80;
  std::string text, line = "Options that few need:";
  for (const Option& option : options) {
    if (option.heading != kHidden) continue;
    if (line.size() + 1 + option.name.size() > kColumns) text += std::exchange(line, "") + "\n";
    line += ' ' + option.name;
  }
  return text.empty() ? "" : text + line;
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "_-./,=:@%+";
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos;
  });
  if (plain) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace

OptionRules operator+(OptionRules rules, OptionRules others) {
  const auto add = [](auto& some, const auto& more) {
    some.insert(some.end(), more.begin(), more.end());
  };
  add(rules.needs, others.needs);
  add(rules.excludes, others.excludes);
  add(rules.is_for, others.is_for);
  rules.required |= others.required;
  rules.may_change |= others.may_change;
  if (others.refusal)
    std::tie(rules.shown, rules.refusal, rules.may_be_file) =
        std::tie(others.shown, others.refusal, others.may_be_file);
  return rules;
}

OptionRules required() { return {.required = true}; }
OptionRules needs(std::string option) { return {.needs = {std::move(option)}}; }
OptionRules excludes(std::vector<std::string> options) { return {.excludes = std::move(options)}; }
OptionRules is_for(std::string option, std::vector<std::string> values) {
  return {.is_for = {{std::move(option), std::move(values)}}};
}
OptionRules may_change() { return {.may_change = true}; }

// The checks of CLI11 accept NaN and print limits of 300 digits.
OptionRules whole_number(std::uint64_t least, std::uint64_t most) {
  return {"N", [least, most](const std::string& text) -> std::string {
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

OptionRules finite_number(double low, double high) {
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

OptionRules file_name(std::string shown) {
  return {std::move(shown),
          [](const std::string& text) -> std::string {
            return text.empty() ? "got an empty text, expected the name of a file" : "";
          },
          true};
}

OptionRules existing_file() {
  return {"FILE",
          [](const std::string& text) -> std::string {
            std::error_code error;
            if (std::filesystem::is_directory(text, error))
              return "File is actually a directory: " + text;
            return std::filesystem::exists(text, error) ? "" : "File does not exist: " + text;
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
  const OptionRules name = one_of(kTokenizerNames), file = existing_file();
  return {name.shown + " OR " + file.shown,
          [=](const std::string& text) {
            const std::string no_name = name.refusal(text), no_file = file.refusal(text);
            if (no_name.empty() || no_file.empty()) return std::string();
            return no_name + " or a file that is there";
          },
          true};
}

OptionTable joined(const std::vector<OptionTable>& tables) {
  OptionTable all;
  for (const OptionTable& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

const Option* find(const OptionTable& options, const std::string& name) {
  const auto found = std::ranges::find(options, name, &Option::name);
  return found == options.end() ? nullptr : &*found;
}

std::string json_of(const Option& option) { return value_of(option).dump(); }

std::map<std::string, std::string> texts_of(const OptionTable& options) {
  std::map<std::string, std::string> texts;
  for (const Option& option : options)
    if (const std::string text = text_of(option); !text.empty()) texts[option.name] = text;
  return texts;
}

OptionTable under(const std::string& heading, OptionTable options,
                  const std::set<std::string>& names) {
  for (Option& option : options)
    if (names.empty() || names.contains(option.name)) option.heading = heading;
  return options;
}

std::string to_json(const OptionTable& options) {
  Json all;
  for (const Option& option : options) all[key_of(option)] = value_of(option);
  return all.dump();
}

void from_json(const OptionTable& options, const std::string& text) {
  const Json all(text, "options");
  for (const Option& option : options)
    check_argument(all.find(key_of(option)) != nullptr, in_quotes(key_of(option)), " is missing");
  set_some(options, text);
}

void set_some(const OptionTable& options, const std::string& text) {
  const Json some(text, "options");
  for (const auto& [key, value] : some.members()) set(option_for(options, key), value);
}

CommandLine::CommandLine(std::string program, std::string about, OptionTable options)
    : program_(std::move(program)), about_(std::move(about)), options_(std::move(options)) {}

void CommandLine::parse(int argc, const char* const* argv, const std::function<void()>& complete) {
  CLI::App app(about_, program_);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag(
      "--version", [] { return concat("rowgrad ", ROWGRAD_VERSION, ", ", blas::describe()); },
      "Print the version, the level of the library and OpenBLAS's kernel, and exit");
  if (std::ranges::any_of(options_, [](const Option& each) { return !each.heading.empty(); }))
    app.set_help_all_flag("--help-all", "Print the help of all options and exit");
  std::map<std::string, CLI::Option*> added;
  for (const Option& option : options_) {
    CLI::Option* one = added[option.name] = add(app, option)->required(option.rules.required);
    // CLI11 takes any number behind --flag= for a switch.
    if (const auto refusal = rules_of(option).refusal) one->check(CLI::Validator(refusal, ""));
    if (!option.heading.empty()) one->group(option.heading);
  }
  for (const Option& option : options_) {
    CLI::Option* one = added[option.name];
    for (const std::string& other : option.rules.needs) one->needs(added.at(other));
    for (const std::string& other : option.rules.excludes) one->excludes(added.at(other));
  }
  defaults_ = texts_of(options_);
  const auto note_given = [&] {
    for (const auto& [name, one] : added)
      if (one->count() > 0) given_[name] = one->results();
    if (complete) complete();
  };
  try {
    app.parse(argc, argv);
    note_given();
  } catch (const CLI::ParseError& error) {
    const bool asks_for_all = dynamic_cast<const CLI::CallForAllHelp*>(&error) != nullptr;
    if (asks_for_all || dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) {
      note_given();
      if (asks_for_all) app.footer(names_of_hidden(options_));
      for (const Option& option : options_) {
        describe(*added[option.name], option, defaults_[option.name]);
        const bool is_shown = asks_for_all ? option.heading != kHidden : option.heading.empty();
        if (!is_shown) added[option.name]->group("");  // nor would messages have its name
      }
    }
    std::ostringstream errors;
    const bool failed = app.exit(error, std::cout, errors) != 0;
    throw EndOfProgram{failed, errors.str()};
  }
  check_effects();
}

bool CommandLine::was_given(const std::string& name) const {
  return given_.contains(name) || in_file_.contains(name);
}

bool CommandLine::was_changed(const std::string& name) const {
  const auto before = defaults_.find(name);
  return text_of(*find(options_, name)) != (before != defaults_.end() ? before->second : "");
}

void CommandLine::set_if_not_given(const std::string& json) {
  const Json all(json, "options");
  for (const auto& [key, value] : all.members()) {
    const Option& option = option_for(options_, key);
    const std::vector<std::string> given = words_of(value_of(option));
    set(option, value);
    defaults_[option.name] = text_of(option);
    if (was_given(option.name)) set(option, given);
  }
}

void CommandLine::take_file(const std::string& json, const std::string& name) {
  const Json file(json, name);
  const Json* const of_run = file.find("options");  // as --json writes them
  const Json& all = of_run != nullptr ? *of_run : file;
  const Json* const steps = all.find("steps");
  const bool has_its_length =
      steps == nullptr || steps->dump() == "0" || !given_.contains("--epochs");
  try {
    for (const auto& [key, value] : all.members()) {
      const Option& option = option_for(options_, key);
      const bool given = given_.contains(option.name);
      // The other options of the file are those of its model and optimizer.
      if (given && (key == "model" || key == "optimizer"))
        check_argument(json_of(option) == value.dump(), option.name, ' ', json_of(option),
                       " is given, but the options are of ", value.dump());
      if (!given && !has_its_length && (key == "steps" || key == "warmup")) continue;
      if (!given) set(option, value);
      in_file_.insert(option.name);
    }
  } catch (const std::invalid_argument& error) {
    throw_invalid_argument({name, ": ", error.what()});
  }
}

void CommandLine::check_effects() const {
  for (const Option& option : options_) {
    const bool is_given = given_.contains(option.name);
    // A file may have all options of a run, most as by default; a command line overrides some.
    if (!is_given && !(in_file_.contains(option.name) && was_changed(option.name))) continue;
    for (const auto& [name, values] : option.rules.is_for) {
      const Option* other = find(options_, name);
      if (other == nullptr) continue;  // this program has it with one value only
      if (!is_given && given_.contains(name)) continue;
      const std::string value = json_of(*other), text = text_of(*other);
      check_argument(value != "[]", option.name, " is for ", name, ", which is not given");
      std::string expected = values.empty() ? "above 0" : values[0];
      for (std::size_t i = 1; i < values.size(); ++i)
        expected += (i + 1 < values.size() ? ", " : " and ") + values[i];
      check_argument(values.empty() ? text != "0" : std::ranges::count(values, text) > 0,
                     option.name, " is for ", name, ' ', expected, ", not for ", value);
    }
  }
}

std::string CommandLine::repeated() const {
  std::string command = program_;
  for (const Option& option : options_) {
    const auto given = given_.find(option.name);
    if (given == given_.end()) continue;
    const std::vector<std::string>& values = given->second;
    command += ' ' + (is_flag(option) && values.back() == "false" ? off_name(option) : option.name);
    if (is_flag(option)) continue;
    for (const std::string& value : values) command += ' ' + shell_word(value);
  }
  return command;
}

}  // namespace rowgrad
