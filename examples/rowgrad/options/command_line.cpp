// The only file that includes CLI11, the command line parser, because it takes seconds to compile.

#include <algorithm>
#include <cctype>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {
namespace {

// An option of an earlier version.
struct FormerOption {
  std::string_view program, name, now;
};
constexpr FormerOption kFormerOptions[] = {
    {"rowgrad rows", "--run", "the first argument: rowgrad rows FILE"},
    {"rowgrad rows", "--why", "--explain"},
    {"rowgrad rows", "--why-steps", "--explain-steps"},
    {"rowgrad finetune", "--from", "the first argument: rowgrad finetune FILE"},
    {"rowgrad train", "--book",
     "--options examples/textbook/chapter5.json or appendix_d.json, in the sources or in "
     "share/doc/rowgrad of the installation"},
    {"rowgrad train", "--look-back", "--window"},
    {"rowgrad train", "--floor", "--min-lr-ratio"},
    {"rowgrad train", "--ngram-silent", "--ngram-zero-init"},
    {"rowgrad rows", "--ngram-silent", "--ngram-zero-init"},
    {"rowgrad train", "--rank-patience", "--rank-timeout"},
    {"rowgrad compare", "--most", "--max-differences"},
    {"rowgrad train", "--sample", "--sample-tokens"},
    {"rowgrad generate", "--sample", "--sample-tokens"},
    {"rowgrad train", "--shards", "--slices"},
    {"rowgrad train", "--split-tables", "--shard-tables"},
    {"rowgrad train", "--tie", "--tie-weights"},
    {"rowgrad train", "--max-steps", "--stop-after"},
    {"rowgrad train", "--untrained", "--evaluate-first"},
    {"rowgrad train", "--start", "--initialization"},
    {"rowgrad train", "--one-generator", "--draw-as-pytorch"},
    {"rowgrad train", "--decay", "--weight-decay-for"}};

bool is_list(const Option& option) {
  return std::holds_alternative<std::vector<std::uint64_t>*>(option.value) ||
         std::holds_alternative<std::vector<std::string>*>(option.value);
}

bool is_argument(const Option& option) { return !option.name.starts_with("--"); }

// Returns true for options that only --help-all lists.
bool is_rare(const Option& option) {
  return !is_argument(option) && !option.heading.empty() && !option.rules.common;
}

// Adds an option to CLI11, which only collects its words; Settings validates them.
CLI::Option* add(CLI::App& app, const Option& option) {
  if (is_flag(option)) return app.add_flag(option.name + ",!--no-" + option.name.substr(2));
  CLI::Option* added =
      app.add_option(option.name, [](const std::vector<std::string>&) { return true; });
  added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (std::holds_alternative<std::vector<std::uint64_t>*>(option.value)) added->delimiter(',');
  if (is_list(option)) added->expected(CLI::detail::expected_max_vector_size);
  return added;
}

[[noreturn]] void reject_arguments(const std::string& program, bool has_rare_options,
                                   const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    std::string name = argument.substr(0, argument.find('='));
    if (name.starts_with("--no-")) name.erase(2, 3);
    for (const FormerOption& former : kFormerOptions)
      check_argument(program != former.program || name != former.name, former.name, " is now ",
                     former.now);
  }
  const bool is_option = arguments.front().starts_with('-');
  throw_invalid_argument({is_option ? "unknown option " : "unexpected argument ", arguments.front(),
                          "; see ", program,
                          is_option && has_rare_options ? " --help-all" : " --help"});
}

// Returns the option as the help shows it: "--width N", "--[no-]bias" or "--corpus FILE ...".
std::string shown(const Option& option) {
  const std::string rest = is_list(option) ? " ..." : "";
  if (is_flag(option)) return "--[no-]" + option.name.substr(2);
  if (is_argument(option)) return option.name + rest;
  const std::string value = rules_of(option).shown;
  return option.name + ' ' + (value.empty() ? "TEXT" : value) + rest;
}

// Returns the default of an option as text, or "" for a default that a user could not pass, such as
// 0 threads, and for a flag that is off.
std::string shown_default(const Option& option, const Json& value) {
  std::string text = text_of(value);
  if (is_flag(option)) return text == "true" ? "on" : "";
  const auto validator = rules_of(option).validator;
  if (!is_list(option) && validator && !validator(text).empty()) return "";
  std::ranges::replace(text, ' ', ',');
  return text;
}

// Prints `first` and the text in lines of at most 100 columns. Indents later lines by `indent`
// spaces.
void print_wrapped(const std::string& first, std::size_t indent, const std::string& text) {
  constexpr std::size_t kColumns = 100;
  std::string line = first;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() + word.size() > kColumns) {
      std::cout << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
      line = std::string(indent, ' ');
    }
    line += word + ' ';
  }
  std::cout << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
}

void print_entry(const std::string& name, const std::string& text) {
  constexpr std::size_t kIndent = 28;
  std::string first = "  " + name + "  ";
  if (first.size() > kIndent) std::cout << "  " << name << '\n';
  if (first.size() > kIndent) first.clear();
  print_wrapped(first + std::string(kIndent - first.size(), ' '), kIndent, text);
}

}  // namespace

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

std::string program_version() {
  return concat("rowgrad ", ROWGRAD_VERSION, ", ", blas::describe());
}

CommandLine::CommandLine(std::string program, std::string about, OptionTable options)
    : program_(std::move(program)), about_(std::move(about)), settings_(std::move(options)) {}

void CommandLine::parse(int argc, const char* const* argv, const Complete& complete) {
  CLI::App app;
  app.set_help_all_flag("--help-all");
  app.set_version_flag("--version", program_version);
  std::map<std::string, CLI::Option*> added;
  for (const Option& option : options()) added[option.name] = add(app, option);
  std::optional<bool> help_on_all;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    help_on_all = false;
  } catch (const CLI::CallForAllHelp&) {
    help_on_all = true;
  } catch (const CLI::CallForVersion&) {
    std::cout << program_version() << '\n';
    throw EndOfProgram();
  } catch (const CLI::ExtrasError&) {
    reject_arguments(program_, std::ranges::any_of(options(), is_rare), app.remaining());
  } catch (const CLI::ArgumentMismatch& error) {  // such as "--width: 1 required TEXT missing"
    const std::string text = error.what();
    throw_invalid_argument({text.substr(0, text.find(':')), " requires a value"});
  } catch (const CLI::ParseError& error) {
    throw std::invalid_argument(error.what());
  }
  for (const Option& option : options()) {
    const std::vector<std::string>& words = added[option.name]->results();
    if (words.empty()) continue;
    check_argument(words.size() == 1 || is_flag(option) || is_list(option), option.name,
                   " is given ", words.size() == 2 ? "twice" : concat(words.size(), " times"),
                   ", expected once");
    settings_.add_words(Source::kCommandLine, option.name, words);
  }
  if (complete) complete(settings_, !help_on_all);
  if (help_on_all) {
    print_help(*help_on_all);
    throw EndOfProgram();
  }
  for (const Option& option : options())
    check_argument(!option.rules.required || settings_.is_given(option.name), option.name,
                   " is missing; usage: ", usage());
  settings_.check();
  settings_.fill();
}

// Options come last, because a list takes all words up to the next option.
std::string CommandLine::usage() const {
  std::string usage = program_;
  for (const Option& option : options())
    if (is_argument(option))
      usage += option.rules.required ? ' ' + shown(option) : " [" + shown(option) + ']';
  return usage + " [OPTIONS]";
}

void CommandLine::print_help(bool all) const {
  OptionTable arguments, named;
  for (const Option& option : options())
    if (all || !is_rare(option)) (is_argument(option) ? arguments : named).push_back(option);
  print_wrapped("", 0, about_);
  std::cout << "Usage: " << usage() << '\n';
  if (!arguments.empty()) std::cout << "\nArguments:\n";
  for (const Option& option : arguments) print_entry(shown(option), option.help);
  std::cout << "\nOptions:\n";
  print_entry("-h, --help", "print this help");
  if (arguments.size() + named.size() < options().size() || all)
    print_entry("--help-all", "print help for all options");
  print_entry("--version", "print the version, the CPU level and the OpenBLAS kernel");
  std::string heading;
  for (const Option& option : named) {
    if (all && option.heading != heading) std::cout << '\n' << (heading = option.heading) << ":\n";
    const std::string value =
        shown_default(option, settings_.below(Source::kOptionsOfRun, option.name));
    print_entry(shown(option), option.help + (value.empty() ? "" : " (default: " + value + ')'));
  }
}

std::string CommandLine::repeated() const {
  std::string arguments, named;
  for (const Option& option : options()) {
    if (settings_.source(option.name) != Source::kCommandLine) continue;
    const Json& value = settings_[option.name];
    std::string& command = is_argument(option) ? arguments : named;
    if (is_flag(option)) command += (value.boolean() ? " --" : " --no-") + option.name.substr(2);
    if (is_flag(option)) continue;
    if (!is_argument(option)) command += ' ' + option.name;
    for (const std::string& word : words_of(value)) command += ' ' + shell_word(word);
  }
  return program_ + arguments + named;
}

}  // namespace rowgrad
