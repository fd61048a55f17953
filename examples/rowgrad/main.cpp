// The program rowgrad: runs the subcommand that its first argument names.

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <unistd.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/parallel/mpi_process_group.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {
namespace {

struct Subcommand {
  std::string_view name;
  const char* summary;
  int (*run)(int argc, const char* const* argv);
  int failure = 1;                 // exit status after an error
  std::string_view old_name = {};  // of the program that it was
};

constexpr std::array kSubcommands{
    Subcommand{"train", "Train a next-token model or a GPT on a text", train_command},
    Subcommand{"generate", "Continue a text with a saved model", generate_command},
    Subcommand{"rows", "Show which embedding rows got gradients, how far they moved, and why",
               rows_command, 1, "inspect_rows"},
    Subcommand{"finetune", "Make a text classifier from a trained GPT", finetune_command, 1,
               "fine_tune"},
    Subcommand{"tokenize", "Convert text to token ids and back, and train tokenizers",
               tokenize_command},
    Subcommand{"compare", "Show where two saved runs differ", compare_command, 2, "compare_runs"},
    Subcommand{"report", "Make a web page from the log of a run", report_command}};

int print_help() {
  std::cout << "Trains language models on a CPU, and shows what each embedding row learned.\n"
               "Usage: rowgrad SUBCOMMAND [OPTIONS]\n\nSubcommands:\n";
  for (const Subcommand& each : kSubcommands)
    std::cout << "  " << each.name << std::string(12 - each.name.size(), ' ') << each.summary
              << '\n';
  std::cout
      << "\n\"rowgrad SUBCOMMAND --help\" lists its options. \"rowgrad --version\" prints the "
         "version.\n";
  return 0;
}

int print_version() {
  std::cout << "rowgrad " << ROWGRAD_VERSION << ", " << blas::describe() << '\n';
  return 0;
}

// Does what `name` asks for where it is no subcommand.
int other_than_subcommand(std::string_view name) {
  if (name == "--help" || name == "-h" || name == "help") return print_help();
  if (name == "--version") return print_version();
  std::string names;
  for (const Subcommand& each : kSubcommands) {
    check_argument(name.empty() || each.old_name != name, "\"", name, "\" is now \"rowgrad ", each.name, "\"");
    names += concat(names.empty() ? "" : ", ", each.name);
  }
  check_argument(!name.empty(), "expected a subcommand: ", names);
  throw_invalid_argument({"there is no subcommand \"", name, "\", expected one of ", names});
}

// Becomes the same program with MPI, if mpirun has started this one and that one is installed.
void use_mpi(char** argv) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path other = self.parent_path() / "../libexec/rowgrad/rowgrad-mpi";
  if (launched_rank() != nullptr && self.filename() != other.filename())
    ::execv(other.c_str(), argv);  // returns where there is none, and then ranks are refused
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  use_mpi(argv);
  const std::string_view name = argc > 1 ? argv[1] : "";
  const auto* const chosen = std::ranges::find(kSubcommands, name, &Subcommand::name);
  if (chosen == kSubcommands.end())
    return run_program(
        "rowgrad", [&] { return other_than_subcommand(name); }, 2);
  return run_program(
      concat("rowgrad ", name), [&] { return chosen->run(argc - 1, argv + 1); }, chosen->failure);
}
