// Measures how far rows that are looked up only in some steps end up from dense Adam, with the
// policies of rowgrad and of other systems. The results are in a table of tests/bench/README.md.

#include "tests/test.hpp"

namespace {

const AdamOptions kAdamOptions{
    .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
constexpr std::size_t kRowWidth = 16, kAdamSteps = 4000;
const Schedule kFalling = Schedule::cosine({.steps = kAdamSteps});

// Returns the factor that corrects the bias of both means after t steps.
double bias_correction(double t) {
  return std::sqrt(1 - std::pow(kAdamOptions.beta2, t)) / (1 - std::pow(kAdamOptions.beta1, t));
}

// A value of a row with its optimizer state, in double.
struct Value {
  double value = 0, mean = 0, square = 0;
  double last = 0;  // the step of its last lookup

  // Updates both means with a gradient, `steps` steps after the last gradient.
  void add_gradient(double gradient, double steps) {
    const auto [beta1, beta2] = std::pair(kAdamOptions.beta1, kAdamOptions.beta2);
    mean = std::pow(beta1, steps) * mean + (1 - beta1) * gradient;
    square = std::pow(beta2, steps) * square + (1 - beta2) * gradient * gradient;
  }
  void move(double rate, double by) {
    value -= rate * by / (std::sqrt(square) + kAdamOptions.epsilon);
  }
};

// Makes step t of a value; `gradient` is null if its row was not looked up.
using Policy = void (*)(Value& x, double t, double rate, const double* gradient);

void dense_adam(Value& x, double t, double rate, const double* gradient) {
  x.add_gradient(gradient != nullptr ? *gradient : 0, 1);
  x.value -= rate / (1 - std::pow(kAdamOptions.beta1, t)) * x.mean /
             (std::sqrt(x.square / (1 - std::pow(kAdamOptions.beta2, t))) + kAdamOptions.epsilon);
}

// torch.optim.SparseAdam: changes only the rows that were looked up, and ignores all other steps.
void sparse_adam(Value& x, double t, double rate, const double* gradient) {
  if (gradient == nullptr) return;
  x.add_gradient(*gradient, 1);
  x.move(rate * bias_correction(t), x.mean);
}

// SmartDecaySparseAdam of Caffe2 (adam_op.h), also in OneFlow (one_embedding_update): applies the
// deferred steps of the mean with the current rate and square, without bias correction.
void smart_decay(Value& x, double t, double rate, const double* gradient) {
  if (gradient == nullptr) return;
  const double beta1 = kAdamOptions.beta1, skipped = t - x.last - 1;
  const double deferred = x.mean * beta1 * (1 - std::pow(beta1, skipped)) / (1 - beta1);
  x.add_gradient(*gradient, t - x.last);
  x.move(rate, x.mean + deferred);
  x.last = t;
}

// HugeCTR's LazyGlobal (sparse_optimizer.cu): a lookup applies the step of the previous lookup
// and all steps since. It uses the current rate, but the old square and correction.
void lazy_global(Value& x, double t, double rate, const double* gradient) {
  if (gradient == nullptr) return;
  const double beta1 = kAdamOptions.beta1;
  if (x.last > 0)
    x.move(rate * bias_correction(x.last) * (1 - std::pow(beta1, t - x.last)) / (1 - beta1),
           x.mean);
  x.add_gradient(*gradient, t - x.last);
  x.last = t;
}

// The gradient of a row in each step; nullopt if the row is not looked up.
using RowGradients = std::vector<std::optional<Tensor>>;

std::vector<double> moved(Policy policy, const RowGradients& gradients) {
  std::vector<Value> row(kRowWidth);
  for (std::size_t step = 0; step < gradients.size(); ++step)
    for (std::size_t i = 0; i < kRowWidth; ++i) {
      const double gradient = gradients[step] ? (*gradients[step])[i] : 0;
      policy(row[i], static_cast<double>(step + 1),
             kAdamOptions.learning_rate * kFalling.factor(step),
             gradients[step] ? &gradient : nullptr);
    }
  std::vector<double> values;
  for (const Value& x : row) values.push_back(x.value);
  return values;
}

std::vector<double> moved_by_rowgrad(const RowGradients& gradients) {
  Embedding table(zeros({2, kRowWidth}));
  Adam adam({&table.weight}, kAdamOptions);
  LearningRateSchedule schedule(adam, kFalling);
  for (const std::optional<Tensor>& gradient : gradients) {
    adam.zero_grad();
    Tape tape;
    const Variable row = table.forward(tape, gradient ? 0 : 1);  // row 1 if there is no gradient
    tape.backward(row, gradient ? *gradient : zeros({kRowWidth}));
    adam.step();
    schedule.step();
  }
  const Tensor row = table.weight.rows(Ids32{0});
  return {row.begin(), row.end()};
}

// Returns the gradients of a row that is looked up in about `share` of the steps.
RowGradients random_gradients(double share, std::uint64_t seed) {
  Random random(seed);
  RowGradients gradients(kAdamSteps);
  for (std::optional<Tensor>& gradient : gradients)
    if (random.uniform({1}, 0, 1)[0] < share) gradient = random.normal({kRowWidth}, 0.3, 1);
  return gradients;
}

// Returns the distance of values from exact values, as a percentage of the norm of the exact
// values.
double percent_off(const std::vector<double>& values, const std::vector<double>& exact) {
  double square = 0, all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    square += std::pow(values[i] - exact[i], 2);
    all += std::pow(exact[i], 2);
  }
  return 100 * std::sqrt(square / all);
}

TEST(RowsLeftBehind, MatchDenseAdamUnlikeOtherPolicies) {
  constexpr std::size_t kRows = 31;  // the test compares medians over these rows
  struct Share {
    double looked_up;
    std::array<double, 3> others;  // SparseAdam, Caffe2 and OneFlow, HugeCTR
  };
  for (const Share& share : {Share{0.5, {11.4, 55.4, 0.2}}, Share{0.1, {23.2, 52.8, 1.1}},
                             Share{0.02, {38.6, 48.9, 3.6}}, Share{0.005, {62.9, 44.6, 10.7}}}) {
    std::array<std::vector<double>, 4> off;  // error of each row: rowgrad, then the others
    for (std::size_t row = 0; row < kRows; ++row) {
      const RowGradients gradients = random_gradients(share.looked_up, row);
      const std::vector<double> exact = moved(dense_adam, gradients);
      off[0].push_back(percent_off(moved_by_rowgrad(gradients), exact));
      off[1].push_back(percent_off(moved(sparse_adam, gradients), exact));
      off[2].push_back(percent_off(moved(smart_decay, gradients), exact));
      off[3].push_back(percent_off(moved(lazy_global, gradients), exact));
    }
    for (std::vector<double>& each : off) std::ranges::sort(each);
    EXPECT_LT(off[0][kRows / 2], 4e-4) << share.looked_up;
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(off[i + 1][kRows / 2], share.others[i], 0.06) << share.looked_up;
  }
}

}  // namespace
