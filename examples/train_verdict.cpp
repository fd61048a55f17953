// Trains a next-token model on Edith Wharton's The Verdict, or on any other text, and reports its
// progress.

#include <CLI/CLI.hpp>

#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/train_program.hpp>

namespace rowgrad {
namespace {

int run_with(int argc, char** argv) {
  CLI::App app(
      "Trains a next-token model: token embedding + positions, look-back, hidden layers, linear "
      "head.\nWithout options, on the characters of Edith Wharton's The Verdict, in under a "
      "minute.");
  app.option_defaults()->always_capture_default();
  TrainProgram program;
  add_program_options(app, program);
  CLI11_PARSE(app, argc, argv);
  complete(app, program.train, TrainOptions().optimizer);
  run_training_program(app, program);
  return 0;
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  return rowgrad::run_program("train_verdict", [&] { return rowgrad::run_with(argc, argv); });
}
