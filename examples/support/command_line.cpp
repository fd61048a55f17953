#include <algorithm>
#include <cctype>
#include <string_view>

#include <CLI/CLI.hpp>

#include <rowgrad/examples/support/command_line.hpp>

namespace rowgrad {
namespace {

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

std::string command_line(const CLI::App& app) {
  std::string command = shell_word(app.get_name());
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    command += " " + option->get_name();
    if (option->get_items_expected_max() > 0)
      for (const std::string& value : option->results()) command += " " + shell_word(value);
  }
  return command;
}

nlohmann::json option_values(const CLI::App& app) {
  nlohmann::json values = nlohmann::json::object();
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (name.empty() || option == app.get_help_ptr()) continue;
    std::string value = option->count() == 0 ? option->get_default_str() : "";
    for (const std::string& result : option->results())
      value += (value.empty() ? "" : " ") + result;
    if (!value.empty()) values[name] = value;
  }
  return values;
}

}  // namespace rowgrad
