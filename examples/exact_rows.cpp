// Shows that steps with row gradients equal dense steps: trains a table twice, once with gradients
// of the rows that were looked up, once with those of the whole table.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <limits>

#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/train_options.hpp>
#include <rowgrad/rowgrad.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kLookups = 32;

struct Options {
  std::size_t rows = 50257;
  std::size_t width = 32;
  std::size_t steps = 300;
  TrainOptions updates{.optimizer = "adamw", .learning_rate = 1e-3, .weight_decay = 0.01};
};

struct Outcome {
  Tensor table;
  std::uint64_t rows_visited = 0;
  double seconds = 0;  // of the steps, without reading the whole table afterwards
};

Outcome train(const Options& options, bool dense_gradient) {
  Random random(123);
  Embedding embedding(options.rows, options.width, random, {.dense_gradient = dense_gradient});
  const auto optimizer = options.updates.make_optimizer(embedding.parameters());
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t step = 0; step < options.steps; ++step) {
    Ids ids = Ids::from_shape({kLookups});
    for (std::int32_t& id : ids.storage())
      id = static_cast<std::int32_t>(random.bits() % options.rows);
    optimizer->zero_grad();
    Tape tape;
    const Variable rows = embedding.forward(tape, ids);
    tape.backward(mean(rows * rows));
    optimizer->step();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const std::uint64_t rows_visited = optimizer->rows_visited();

  // [reading]
  const Parameter& table = embedding.weight;
  const std::vector<std::int32_t> ids{3, 17};
  const Tensor two_rows = table.rows(ids);  // up to date, for the cost of two rows
  const Tensor& all = table.value();        // up to date, all of it, until the next step
  // [reading]
  std::cout << (dense_gradient ? "dense gradients  " : "row gradients    ") << "row " << ids[0]
            << " begins " << two_rows(0, 0) << ' ' << two_rows(0, 1) << '\n';
  return {all, rows_visited, seconds.count()};
}

void run(const Options& options) {
  const Outcome rows = train(options, false);
  const Outcome dense = train(options, true);
  double difference = 0;
  for (std::size_t i = 0; i < dense.table.size(); ++i)
    difference =
        std::max<double>(difference, std::abs(rows.table.data()[i] - dense.table.data()[i]));
  std::cout << '\n'
            << options.steps << " steps of " << kLookups << " lookups in " << options.rows
            << " rows of " << options.width << " numbers, " << options.updates.optimizer << '\n'
            << "Largest difference of any number  " << std::setprecision(2) << difference << '\n'
            << "Rows visited                      " << rows.rows_visited
            << ", replayed steps counted; dense " << options.steps * options.rows << '\n'
            << std::fixed << "Time                              " << rows.seconds << " s; dense "
            << dense.seconds << " s\n";
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("exact_rows", [&] {
    Options options;
    const OptionTable sizes{{"--rows", &options.rows, "of the table, of which 3 and 17 are shown",
                             whole_number(18, std::numeric_limits<std::int32_t>::max())},
                            {"--width", &options.width, "numbers in a row", whole_number(1)},
                            {"--steps", &options.steps, "to train", whole_number(1)}};
    CommandLine line("Trains a table with row gradients and with dense ones, and compares.",
                     joined({sizes, optimizer_table(options.updates)}));
    line.parse(argc, argv);
    complete(line, options.updates);
    line.check_effects();
    run(options);
    return 0;
  });
}
