// Steps with row gradients equal dense steps: trains a table once with gradients of the rows that
// were looked up and once with those of the whole table, and then compares how far rows under Adam
// end from dense Adam's, here and elsewhere.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;

constexpr std::size_t kTableRows = 50257, kTableWidth = 32, kTableSteps = 300, kLookups = 32;

Tensor train(bool dense_gradient) {
  Random random(123);
  Embedding embedding(kTableRows, kTableWidth, random, {.dense_gradient = dense_gradient});
  AdamW optimizer(embedding.parameters(), {.learning_rate = 1e-3});
  for (std::size_t step = 0; step < kTableSteps; ++step) {
    Ids ids = Ids::from_shape({kLookups});
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.bits() % kTableRows);
    optimizer.zero_grad();
    Tape tape;
    const Variable rows = embedding.forward(tape, ids);
    tape.backward(mean(rows * rows));
    optimizer.step();
  }
  // [reading]
  const Parameter& table = embedding.weight;
  const std::vector<std::int32_t> ids{3, 17};
  const Tensor two_rows = table.rows(ids);  // up to date, for the cost of two rows
  const Tensor& all = table.value();        // up to date, all of it, until the next step
  // [reading]
  std::printf("%-16s row %d begins %g %g\n", dense_gradient ? "dense gradients" : "row gradients",
              ids[0], two_rows(0, 0), two_rows(0, 1));
  return all;
}

void compare_with_dense_steps() {
  const Tensor rows = train(false), dense = train(true);
  double difference = 0;
  for (std::size_t i = 0; i < dense.size(); ++i)
    difference = std::max<double>(difference, std::abs(rows.data()[i] - dense.data()[i]));
  std::printf("\n%zu steps of %zu lookups in %zu rows of %zu numbers, AdamW\n", kTableSteps,
              kLookups, kTableRows, kTableWidth);
  std::printf("Largest difference of any number  %.2g\n\n", difference);
}

// --- Others ------------------------------------------------------------------------------------
//
// Rows under Adam, looked up in some of the steps only, as others bring it up to date, each by
// its formula: how far they end from dense Adam.

constexpr double kRate = 1e-3, kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
constexpr std::size_t kRows = 31, kRowWidth = 16, kAdamSteps = 4000;
const Schedule kFalling = Schedule::cosine({.steps = kAdamSteps});

// Of the means after t steps.
double correction(double t) {
  return std::sqrt(1 - std::pow(kBeta2, t)) / (1 - std::pow(kBeta1, t));
}

// A number of the row, in double.
struct Number {
  double value = 0, mean = 0, square = 0;
  double last = 0;  // the step that it was looked up in

  void take_in(double gradient, double steps) {
    mean = std::pow(kBeta1, steps) * mean + (1 - kBeta1) * gradient;
    square = std::pow(kBeta2, steps) * square + (1 - kBeta2) * gradient * gradient;
  }
  void move(double rate, double by) { value -= rate * by / (std::sqrt(square) + kEpsilon); }
};

// What happens to it in step t, with its gradient, or without one if it was not looked up.
using Policy = void (*)(Number& x, double t, double rate, const double* gradient);

void dense_adam(Number& x, double t, double rate, const double* gradient) {
  x.take_in(gradient != nullptr ? *gradient : 0, 1);
  x.value -= rate / (1 - std::pow(kBeta1, t)) * x.mean /
             (std::sqrt(x.square / (1 - std::pow(kBeta2, t))) + kEpsilon);
}

// torch.optim.SparseAdam: only the step's own rows change, as if nothing had been missed.
void sparse_adam(Number& x, double t, double rate, const double* gradient) {
  if (gradient == nullptr) return;
  x.take_in(*gradient, 1);
  x.move(rate * correction(t), x.mean);
}

// SmartDecaySparseAdam of Caffe2 (adam_op.h), which OneFlow has too (one_embedding_update): what
// the mean would have moved is made up for at today's rate and square; nothing is corrected.
void smart_decay(Number& x, double t, double rate, const double* gradient) {
  if (gradient == nullptr) return;
  const double missed = t - x.last - 1;
  const double owed = x.mean * kBeta1 * (1 - std::pow(kBeta1, missed)) / (1 - kBeta1);
  x.take_in(*gradient, t - x.last);
  x.move(rate, x.mean + owed);
  x.last = t;
}

// HugeCTR's LazyGlobal (sparse_optimizer.cu): all steps since the last lookup, its own included,
// are made at the next one, with today's rate and the square and correction of that time.
void lazy_global(Number& x, double t, double rate, const double* gradient) {
  if (gradient == nullptr) return;
  if (x.last > 0)
    x.move(rate * correction(x.last) * (1 - std::pow(kBeta1, t - x.last)) / (1 - kBeta1), x.mean);
  x.take_in(*gradient, t - x.last);
  x.last = t;
}

// The gradients of the row in each step, none if it is not looked up.
using RowGradients = std::vector<std::optional<Tensor>>;

std::vector<double> moved(Policy policy, const RowGradients& gradients) {
  std::vector<Number> row(kRowWidth);
  for (std::size_t step = 0; step < gradients.size(); ++step)
    for (std::size_t i = 0; i < kRowWidth; ++i) {
      const double gradient = gradients[step] ? (*gradients[step])[i] : 0;
      policy(row[i], static_cast<double>(step + 1), kRate * kFalling.factor(step),
             gradients[step] ? &gradient : nullptr);
    }
  std::vector<double> values;
  for (const Number& x : row) values.push_back(x.value);
  return values;
}

std::vector<double> moved_by_rowgrad(const RowGradients& gradients) {
  Embedding table(zeros({2, kRowWidth}));
  Adam adam({&table.weight},
            {.learning_rate = kRate, .beta1 = kBeta1, .beta2 = kBeta2, .epsilon = kEpsilon});
  LearningRateSchedule schedule(adam, kFalling);
  for (const std::optional<Tensor>& gradient : gradients) {
    adam.zero_grad();
    Tape tape;
    const Variable row = table.forward(tape, gradient ? 0 : 1);  // a step looks up some other row
    tape.backward(row, gradient ? *gradient : zeros({kRowWidth}));
    adam.step();
    schedule.step();
  }
  const Tensor row = table.weight.rows(std::vector<std::int32_t>{0});
  return {row.begin(), row.end()};
}

// Of a row that is looked up in this share of the steps.
RowGradients random_gradients(double share, std::uint64_t seed) {
  Random random(seed);
  RowGradients gradients(kAdamSteps);
  for (std::optional<Tensor>& gradient : gradients)
    if (random.uniform({1}, 0, 1)[0] < share) gradient = random.normal({kRowWidth}, 0.3, 1);
  return gradients;
}

// How far values are from exact ones, as a share in % of these.
double distance(const std::vector<double>& values, const std::vector<double>& exact) {
  double square = 0, all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    square += std::pow(values[i] - exact[i], 2);
    all += std::pow(exact[i], 2);
  }
  return 100 * std::sqrt(square / all);
}

void compare_with_others() {
  std::printf(
      "Rows of %zu numbers under Adam, %zu steps, the rate falling to 0 as a cosine: how far they "
      "end from\ndense Adam's, as a share of how far that moved them (median of %zu rows)\n\n"
      "looked up in    rowgrad    SparseAdam    Caffe2, OneFlow    HugeCTR\n",
      kRowWidth, kAdamSteps, kRows);
  for (const double share : {0.5, 0.1, 0.02, 0.005}) {
    std::array<std::vector<double>, 4> off;  // rowgrad's and the others', of each row
    for (std::size_t row = 0; row < kRows; ++row) {
      const RowGradients gradients = random_gradients(share, row);
      const std::vector<double> exact = moved(dense_adam, gradients);
      off[0].push_back(distance(moved_by_rowgrad(gradients), exact));
      off[1].push_back(distance(moved(sparse_adam, gradients), exact));
      off[2].push_back(distance(moved(smart_decay, gradients), exact));
      off[3].push_back(distance(moved(lazy_global, gradients), exact));
    }
    for (std::vector<double>& each : off) std::ranges::sort(each);
    std::printf("%4.3g %% of steps %7.1e %% %11.1f %% %16.1f %% %8.1f %%\n", 100 * share,
                off[0][kRows / 2], off[1][kRows / 2], off[2][kRows / 2], off[3][kRows / 2]);
  }
}

int main() {
  compare_with_dense_steps();
  compare_with_others();
}
