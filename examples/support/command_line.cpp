#include <algorithm>
#include <cctype>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/support/command_line.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {
namespace {

std::string off_name(const Option& option) { return "--no-" + option.name.substr(2); }

CLI::Option* add(CLI::App& app, const Option& option) {
  return std::visit(
      [&](auto value) {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::monostate>) {
          return app.add_flag(option.name, option.help);
        } else if constexpr (std::is_same_v<Value, bool>) {
          const std::string off = option.values.can_be_off ? ",!" + off_name(option) : "";
          return app.add_flag(option.name + off, *value, option.help);
        } else {
          CLI::Option* added = app.add_option(option.name, *value, option.help);
          if constexpr (std::is_same_v<Value, std::vector<std::uint64_t>>) added->delimiter(',');
          return added;
        }
      },
      option.value);
}

// Options as help2man reads them: "-h, --help", no {false} behind --no-…, and two blanks before the
// text, of which one is part of what stands before it.
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
    return CLI::Formatter::make_option_opts(option) + ' ';
  }
};

// What the help says of an option with a value: "--epochs N", and the default behind the text. A
// default that could not be given, such as 0 threads, is left to the text.
void describe(CLI::Option& added, const Option& option) {
  const Values& values = option.values;
  std::string kind = values.shown.substr(0, values.shown.find(" >="));
  std::erase_if(kind, [](char c) { return c == '(' || c == ')'; });
  added.type_name(kind == option.name ? "" : kind.empty() ? "TEXT" : kind);
  std::string value = added.get_default_str();
  if (value.starts_with('[')) value = value.substr(1, value.size() - 2);
  if (!value.empty() && (!values.refusal || values.refusal(value).empty()))
    added.description(concat(option.help, " (default: ", value, ')'));
  added.default_str("");
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

CommandLine::CommandLine(std::string about, OptionTable options)
    : about_(std::move(about)), options_(std::move(options)) {}

void CommandLine::parse(int argc, const char* const* argv) {
  CLI::App app(about_);
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag(
      "--version", [] { return concat("rowgrad ", ROWGRAD_VERSION, ", ", blas::describe()); },
      "Print the version, the level of the library and OpenBLAS's kernel, and exit");
  app.option_defaults()->always_capture_default();
  for (const Option& option : options_) {
    CLI::Option* added = add(app, option)->required(option.rules.required);
    if (option.values.refusal) added->check(CLI::Validator(option.values.refusal, ""));
    if (option.value.index() > 1) describe(*added, option);  // no flag
  }
  for (const Option& option : options_) {
    CLI::Option* added = app.get_option(option.name);
    for (const std::string& other : option.rules.needs) added->needs(app.get_option(other));
    for (const std::string& other : option.rules.excludes) added->excludes(app.get_option(other));
  }
  defaults_ = texts_of(options_);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    throw EndOfProgram{app.exit(error)};
  }
  program_ = app.get_name();
  for (const Option& option : options_)
    if (const CLI::Option* read = app.get_option(option.name); read->count() > 0)
      given_[option.name] = read->results();
}

bool CommandLine::was_changed(const std::string& name) const {
  return texts_of(options_).at(name) != defaults_.at(name);
}

void CommandLine::set_if_not_given(const std::string& json) {
  set_some(options_, json, [this](const std::string& name) { return was_given(name); });
}

void CommandLine::check_effects(const OptionTable& chosen) const {
  for (const Option& option : options_) {
    if (!was_given(option.name)) continue;
    for (const Condition& condition : option.rules.is_for) {
      const Option* other = find(chosen, condition.option);
      if (other == nullptr) other = find(options_, condition.option);
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
    const bool is_flag = option.value.index() < 2;
    command += ' ' + (is_flag && values.back() == "false" ? off_name(option) : option.name);
    if (is_flag) continue;
    for (const std::string& value : values) command += ' ' + shell_word(value);
  }
  return command;
}

}  // namespace rowgrad
