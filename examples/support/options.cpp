#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/support/options.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
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

Json value_of(const Option& option) {
  if (const auto* choice = std::get_if<Choice>(&option.value)) return choice->names[choice->get()];
  return std::visit(
      [](const auto& value) {
        if constexpr (requires { *value; }) return Json(*value);
        return Json();
      },
      option.value);
}

// One of the names, in braces.
std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "{" : ",") + name;
  return list + '}';
}

std::string expected_names(const std::string& got, const std::vector<std::string>& names) {
  return concat("got ", in_quotes(got), ", expected one of ", list_of(names));
}

void choose(const Choice& choice, const std::string& name) {
  const auto found = std::ranges::find(choice.names, name);
  check_argument(found != choice.names.end(), expected_names(name, choice.names));
  choice.set(static_cast<std::size_t>(found - choice.names.begin()));
}

// Sets a value from JSON, which must be one that the option takes.
struct Reading {
  const Option& option;
  const Json& json;

  template <class Value>
  Value checked(Value value) const {
    if (!option.values.refusal || option.values.may_be_file) return value;
    std::string text;
    if constexpr (std::is_same_v<Value, std::string>)
      text = value;
    else
      text = Json(value).dump();
    const std::string refusal = option.values.refusal(text);
    check_argument(refusal.empty(), refusal);
    return value;
  }
  template <class Value>
  std::vector<Value> all_checked(std::vector<Value> values) const {
    for (const Value& value : values) checked(value);
    return values;
  }

  void operator()(bool* value) const { *value = json.boolean(); }
  void operator()(std::uint64_t* value) const { *value = checked(json.whole_number()); }
  void operator()(double* value) const { *value = checked(json.number()); }
  void operator()(std::string* value) const { *value = checked(json.string()); }
  void operator()(std::vector<std::string>* value) const { *value = all_checked(json.strings()); }
  void operator()(std::vector<std::uint64_t>* value) const {
    *value = all_checked(json.whole_numbers());
  }
  void operator()(const Choice& choice) const { choose(choice, json.string()); }
};

// What a JSON must have for an option.
struct ExpectedJson {
  const char* operator()(const bool*) const { return "true or false"; }
  const char* operator()(const std::uint64_t*) const { return "a whole number"; }
  const char* operator()(const double*) const { return "a number"; }
  const char* operator()(const std::string*) const { return "a text"; }
  const char* operator()(const std::vector<std::string>*) const { return "a list of texts"; }
  const char* operator()(const std::vector<std::uint64_t>*) const {
    return "a list of whole numbers";
  }
  const char* operator()(const Choice&) const { return "a text"; }
};

void set(const Option& option, const Json& value) {
  try {
    std::visit(Reading{option, value}, option.value);
  } catch (const std::runtime_error&) {
    const std::string got = value.dump();
    const bool is_text = got.starts_with('"');
    throw_invalid_argument({in_quotes(key_of(option)), ": got ", is_text ? "the text " : "",
                            in_quotes(is_text ? value.string() : got), ", expected ",
                            std::visit(ExpectedJson(), option.value)});
  } catch (const std::invalid_argument& error) {
    throw_invalid_argument({in_quotes(key_of(option)), ": ", error.what()});
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

std::string off_name(const Option& option) { return "--no-" + option.name.substr(2); }

bool is_flag(const Option& option) { return std::holds_alternative<bool*>(option.value); }

CLI::Option* add(CLI::App& app, const Option& option) {
  return std::visit(
      [&](auto value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>) {
          return app.add_flag(option.name + ",!" + off_name(option), *value, option.help);
        } else if constexpr (std::is_same_v<Value, Choice>) {
          const auto set_it = [value](const std::string& name) { choose(value, name); };
          return app.add_option_function<std::string>(option.name, set_it, option.help);
        } else {
          CLI::Option* added = app.add_option(option.name, *value, option.help);
          if constexpr (std::is_same_v<Value, std::vector<std::uint64_t>>) added->delimiter(',');
          return added;
        }
      },
      option.value);
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

// What the help says of an option: "--epochs N", and the default behind the text. A default that
// could not be given, such as 0 threads, is left to the text.
void describe(CLI::Option& added, const Option& option, std::string value) {
  const auto& [shown, refusal, may_be_file] = option.values;
  if (is_flag(option))
    value = value == "true" ? "on" : "off";
  else
    added.type_name(shown == option.name ? "" : shown.empty() ? "TEXT" : shown);
  std::replace(value.begin(), value.end(), ' ', ',');
  if (!value.empty() && (!refusal || refusal(value).empty()))
    added.description(concat(option.help, " (default: ", value, ')'));
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

// The checks of CLI11 accept NaN and print limits of 300 digits.
Values whole_number(std::uint64_t least, std::uint64_t most) {
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
  return {"FILE",
          [](const std::string& text) -> std::string {
            return text.empty() ? "got an empty text, expected the name of a file" : "";
          },
          true};
}

Values folder_name() {
  Values values = file_name();
  values.shown = "FOLDER";
  return values;
}

Values existing_file() {
  return {"FILE",
          [](const std::string& text) -> std::string {
            std::error_code error;
            if (std::filesystem::is_directory(text, error))
              return "File is actually a directory: " + text;
            return std::filesystem::exists(text, error) ? "" : "File does not exist: " + text;
          },
          true};
}

Values one_of(const std::vector<std::string>& names) {
  return {list_of(names), [names](const std::string& text) {
            const bool is_one = std::ranges::find(names, text) != names.end();
            return is_one ? "" : expected_names(text, names);
          }};
}

Values tokenizer_choice() {
  const Values name = one_of(kTokenizerNames), file = existing_file();
  return {name.shown + " OR " + file.shown,
          [=](const std::string& text) {
            const std::string no_name = name.refusal(text), no_file = file.refusal(text);
            if (no_name.empty() || no_file.empty()) return std::string();
            return no_name + " or a file that is there";
          },
          true};
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

std::string json_of(const Option& option) { return value_of(option).dump(); }

std::map<std::string, std::string> texts_of(const OptionTable& options) {
  std::map<std::string, std::string> texts;
  for (const Option& option : options)
    std::visit(
        [&](const auto& value) {
          using Value = std::remove_cvref_t<decltype(value)>;
          std::string text;
          if constexpr (std::is_pointer_v<Value>) text = text_of(*value);
          if constexpr (std::is_same_v<Value, Choice>) text = value.names[value.get()];
          if (!text.empty()) texts[option.name] = text;
        },
        option.value);
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

std::string changes(const OptionTable& now, const OptionTable& before) {
  std::string text;
  for (const Option& option : now)
    if (const std::string was = json_of(*find(before, option.name)); was != json_of(option))
      text +=
          concat(text.empty() ? "" : ", ", option.name, ' ', json_of(option), " instead of ", was);
  return text;
}

CommandLine::CommandLine(std::string about, OptionTable options)
    : about_(std::move(about)), options_(std::move(options)) {
  for (Option& option : options_)
    if (const auto* choice = std::get_if<Choice>(&option.value))
      option.values = one_of(choice->names);
}

void CommandLine::parse(int argc, const char* const* argv, const std::function<void()>& complete) {
  CLI::App app(about_);
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
    const auto refusal =
        is_flag(option) ? one_of({"true", "false"}).refusal : option.values.refusal;
    if (refusal) one->check(CLI::Validator(refusal, ""));
    if (!option.heading.empty()) one->group(option.heading);
  }
  for (const Option& option : options_) {
    CLI::Option* one = added[option.name];
    for (const std::string& other : option.rules.needs) one->needs(added.at(other));
    for (const std::string& other : option.rules.excludes) one->excludes(added.at(other));
  }
  defaults_ = texts_of(options_);
  const auto note_given = [&] {
    program_ = app.get_name();
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
    throw EndOfProgram{app.exit(error)};
  }
}

bool CommandLine::was_given(const std::string& name) const {
  return given_.contains(name) || in_file_.contains(name);
}

bool CommandLine::was_changed(const std::string& name) const {
  return texts_of(options_).at(name) != defaults_.at(name);
}

void CommandLine::set_if_not_given(const std::string& json) {
  const Json all(json, "options");
  for (const auto& [key, value] : all.members()) {
    const Option& option = option_for(options_, key);
    const std::string given = json_of(option);
    set(option, value);
    defaults_[option.name] = texts_of({option})[option.name];
    if (was_given(option.name)) set(option, Json(given, "options"));
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
    if (!given_.contains(option.name)) continue;
    for (const Condition& condition : option.rules.is_for) {
      const Option* other = find(options_, condition.option);
      if (other == nullptr) continue;  // this program has it with one value only
      const std::string value = json_of(*other);
      check_argument(value != "[]", option.name, " is for ", other->name, ", which is not given");
      const std::vector<std::string>& values = condition.values;
      const auto is_value = [&](const std::string& each) {
        return value == each || value == '"' + each + '"';
      };
      const bool fits =
          values.empty() ? value != "0" && value != "0.0" : std::ranges::any_of(values, is_value);
      std::string expected = values.empty() ? "above 0" : values[0];
      for (std::size_t i = 1; i < values.size(); ++i)
        expected += (i + 1 < values.size() ? ", " : " and ") + values[i];
      check_argument(fits, option.name, " is for ", other->name, ' ', expected, ", not for ",
                     value);
    }
  }
}

std::string CommandLine::repeated() const {
  std::string command = shell_word(program_);
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
