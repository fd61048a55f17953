// The program rowgrad: runs the subcommand named by its first argument.

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/parallel/mpi_process_group.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>

namespace rowgrad {
namespace {

struct Subcommand {
  std::string_view name;
  const char* summary;
  int (*run)(int argc, const char* const* argv);
  int failure = 1;  // exit status after an error
};

constexpr std::array kSubcommands{
    Subcommand{"train", "Train a language model or word vectors on text", train_command},
    Subcommand{"generate", "Continue text with a saved model", generate_command},
    Subcommand{"rows", "Show which embedding rows got gradients, how far they moved, and why",
               rows_command},
    Subcommand{"finetune", "Train a text classifier from a GPT", finetune_command},
    Subcommand{"tokenize", "Convert text to token ids and back, or train a tokenizer",
               tokenize_command},
    Subcommand{"compare", "Show the differences between two checkpoints", compare_command, 2},
    Subcommand{"report", "Make a web page from the log of a run", report_command}};

// Programs of earlier versions, with the commands that replace them.
constexpr std::pair<std::string_view, const char*> kFormerPrograms[] = {
    {"train_verdict", "rowgrad train"},
    {"train_gpt", "rowgrad train --model gpt"},
    {"inspect_rows", "rowgrad rows"},
    {"fine_tune", "rowgrad finetune"},
    {"compare_runs", "rowgrad compare"}};

int print_help() {
  std::cout << "Train language models on a CPU, and see what each embedding row learns.\n"
               "Usage: rowgrad SUBCOMMAND [OPTIONS]\n\nSubcommands:\n";
  for (const Subcommand& each : kSubcommands)
    std::cout << "  " << each.name << std::string(12 - each.name.size(), ' ') << each.summary
              << '\n';
  std::cout << "\nSee \"rowgrad help SUBCOMMAND\" for the options of a subcommand.\n"
               "\"rowgrad --version\" prints the version.\n";
  return 0;
}

int print_version() {
  std::cout << program_version() << '\n';
  return 0;
}

// Prints help or the version. Throws std::invalid_argument for any other name.
int other_than_subcommand(std::string_view name) {
  if (name == "--help" || name == "-h" || name == "help") return print_help();
  if (name == "--version") return print_version();
  for (const auto& [former, now] : kFormerPrograms)
    check_argument(former != name, in_quotes(name), " is now ", in_quotes(now));
  std::string names;
  for (const Subcommand& each : kSubcommands) names += concat(names.empty() ? "" : ", ", each.name);
  check_argument(!name.empty(), "expected a subcommand: ", names);
  throw_invalid_argument({"unknown subcommand ", in_quotes(name), ", expected one of ", names});
}

// Under mpirun, replaces this process with the MPI version of the program if it is installed.
void use_mpi(char** argv) {
  if (launched_rank() == nullptr) return;
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", unknown);
  const std::filesystem::path other = self.parent_path() / "../libexec/rowgrad/rowgrad-mpi";
  if (!unknown && self.filename() != other.filename())
    ::execv(other.c_str(), argv);  // returns only on failure
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  use_mpi(argv);
  std::vector<const char*> arguments(argv + std::min(argc, 1), argv + argc);
  const bool helps = arguments.size() > 1 && arguments[0] == std::string_view("help");
  if (helps) {
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  const std::string_view name = arguments.empty() ? "" : arguments[0];
  const auto* const chosen = std::ranges::find(kSubcommands, name, &Subcommand::name);
  if (chosen == kSubcommands.end())
    return run_program("rowgrad", [&] { return other_than_subcommand(name); });
  const auto run = [&] {
    check_argument(helps || name == "train" || launched_size().empty() || launched_size() == "1",
                   "cannot run on several ranks of mpirun; only train can");
    return chosen->run(static_cast<int>(arguments.size()), arguments.data());
  };
  return run_program(concat("rowgrad ", name), run, chosen->failure);
}
