// Trains a next-token model on Edith Wharton's The Verdict, or on any other text, and reports its
// progress.

#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/train_program.hpp>

int main(int argc, char** argv) {
  return rowgrad::run_program("train_verdict", [&] {
    rowgrad::TrainProgram program;
    rowgrad::CommandLine line(
        "Trains a next-token model: token embedding + positions, look-back, hidden layers, linear "
        "head.\nWithout options, on the characters of Edith Wharton's The Verdict, in under a "
        "minute.",
        option_table_of(program));
    line.parse(argc, argv);
    complete(line, program.train);
    run_training_program(line, program);
    return 0;
  });
}
