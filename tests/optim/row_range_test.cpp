// Rows whose values, or the factors that many steps multiply them by, are near the limits of the
// range of `real`, beyond it, or NaN: postponed updates must give what the dense optimizer gives.

#include "tests/optim/optimizers.hpp"

namespace {

// The range of double has some eight times as many powers of ten as that of float.
constexpr int kWider = sizeof(real) == 8 ? 8 : 1;

constexpr real kMost = std::numeric_limits<real>::max();

real power_of_ten(int exponent) { return static_cast<real>(std::pow(10.0, exponent * kWider)); }

// Equal up to that many roundings, both NaN, or the same infinity. Subnormal numbers count as zero.
::testing::AssertionResult same(const Tensor& rows, const Tensor& dense, double roundings) {
  if (rows.shape() != dense.shape()) return ::testing::AssertionFailure() << "different shapes";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double a = rows.data()[i], b = dense.data()[i];
    const double most =
        roundings * kEpsilon * std::abs(b) + static_cast<double>(std::numeric_limits<real>::min());
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= most) continue;
    return ::testing::AssertionFailure() << "number " << i << ": " << a << ", dense " << b;
  }
  return ::testing::AssertionSuccess();
}

struct Phase {
  AnyOptions options;
  int steps;
  real gradient = 0;  // of row 0, in the first step
};

// Row 0 starts from `numbers`; row 1 has a gradient in every step. Numbers and states are compared
// after each phase, with so many roundings for each step so far.
void expect_dense_numbers(const std::vector<real>& numbers, const std::vector<Phase>& phases,
                          double roundings = 20) {
  const std::size_t width = numbers.size();
  const std::vector<std::int32_t> zero{0};
  Tensor start = irregular({2, width});
  std::copy(numbers.begin(), numbers.end(), start.data());
  RowsAndDense twins(start, phases.front().options);
  int steps = 0;
  for (const Phase& phase : phases) {
    set_options(*twins.optimizer, phase.options);
    set_options(*twins.dense_optimizer, phase.options);
    for (int i = 0; i < phase.steps; ++i) {
      const bool both = i == 0 && phase.gradient != 0;
      Tensor values = irregular({both ? 2U : 1U, width}, i);
      if (both) std::fill_n(values.data(), width, phase.gradient);
      twins.step(RowGradient({2, width}, both ? std::vector{0, 1} : std::vector{1}, values));
    }
    steps += phase.steps;
    ASSERT_TRUE(same(twins.table.rows(zero), twins.dense.rows(zero), roundings * steps))
        << "after " << steps;
  }
  twins.table.mutable_values();  // settles all
  ASSERT_TRUE(same(twins.table.value(), twins.dense.value(), roundings * steps));
  const Checkpoint states = twins.optimizer->state_dict();
  const Checkpoint dense_states = twins.dense_optimizer->state_dict();
  ASSERT_EQ(states.names(), dense_states.names());
  ASSERT_EQ(states.count("table.step"), dense_states.count("table.step"));
  for (const std::string& name : dense_states.names()) {
    if (name == "table.step") continue;
    ASSERT_TRUE(same(states.tensor(name, start.shape()), dense_states.tensor(name, start.shape()),
                     roundings * steps))
        << name;
  }
}

constexpr SgdOptions decayed(double decay) { return {.learning_rate = 1, .weight_decay = decay}; }

constexpr AdamWOptions decoupled(double decay) {
  return {.learning_rate = 1, .weight_decay = decay};
}

TEST(RowRange, AProductMayBeThereThoughTheCoefficientIsTooLargeOrTooSmall) {
  for (const AnyOptions& options : {AnyOptions(decayed(11)), AnyOptions(decoupled(11))})
    expect_dense_numbers({power_of_ten(-12), -power_of_ten(-13), 0}, {{options, 45 * kWider}});
  for (const AnyOptions& options : {AnyOptions(decayed(0.9)), AnyOptions(decoupled(0.9))})
    for (const int steps : {35, 40, 45, 50, 55})
      expect_dense_numbers({power_of_ten(20), -power_of_ten(19), 1, 0},
                           {{options, steps * kWider}});
  // Steps may matter once decay has made the row small.
  expect_dense_numbers({power_of_ten(20), -power_of_ten(20)}, {{decoupled(0.9), 45 * kWider, 1}});
}

TEST(RowRange, AStateMayBeThereThoughItsCoefficientIsTooSmall) {
  for (const int steps : {120, 140, 150, 160})
    for (const int exponent : {1, 8, 20}) {
      const real gradient = power_of_ten(exponent);
      expect_dense_numbers({1, 2, 3}, {{SgdOptions{.momentum = 0.5}, steps * kWider, gradient}});
      expect_dense_numbers({1, 2, 3}, {{RmsPropOptions{.alpha = 0.5, .momentum = 0.25},
                                        steps * kWider, gradient / 100}});
    }
}

TEST(RowRange, WhatOverflowsDoesNotComeBack) {
  const std::vector<real> numbers{1, -power_of_ten(-10), power_of_ten(-22), 0};
  expect_dense_numbers(numbers, {{decayed(11), 60 * kWider}, {decayed(0.9), 70 * kWider}});
  expect_dense_numbers(numbers, {{decoupled(11), 60 * kWider}, {decoupled(0.9), 70 * kWider}});
  const SgdOptions grows{.learning_rate = 1, .momentum = 2};
  expect_dense_numbers(
      {1, -1}, {{grows, 300 * kWider, 1},
                {SgdOptions{.learning_rate = 1, .momentum = 0.5, .weight_decay = 0.1}, 200}});
  expect_dense_numbers({0, 0}, {{grows, 3000}});  // row 1 diverges
  // Within a step: weight_decay · w is infinite, though a step only takes 0.1 of it away.
  expect_dense_numbers(
      {kMost / 8, -kMost / 16, 1},
      {{SgdOptions{.learning_rate = 0.1, .momentum = 0.5, .nesterov = true, .weight_decay = 11},
        60}});
  // A gradient whose square is infinite stops a row.
  const auto huge = static_cast<real>(sizeof(real) == 8 ? 1e160 : 1e22);
  for (const AnyOptions& options :
       {AnyOptions(AdamOptions()), AnyOptions(AdamWOptions()), AnyOptions(RmsPropOptions())})
    expect_dense_numbers({-0.3F, 0.5F, 0.9F}, {{options, 3}, {options, 897, huge}}, 1);
}

TEST(RowRange, WhatIsNoNumberOrInfiniteStaysAsUnderTheDenseOptimizer) {
  const std::vector<real> numbers{1, NAN, kInfinity, -kInfinity, kMost, -kMost, kMost / 3, 0, 2};
  for (const real gradient : {real{0}, real{1}, kMost / 8, kInfinity, real{NAN}}) {
    SCOPED_TRACE(gradient);
    using W = AdamWOptions;
    for (const std::vector<Phase>& phases : std::vector<std::vector<Phase>>{
             {{decayed(0.01), 41, gradient}, {decayed(0.9), 300}},
             {{SgdOptions{.learning_rate = 0.1, .momentum = 0.9}, 13, gradient},
              {SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1}, 50},
              {SgdOptions{.learning_rate = 1, .momentum = 0.5, .nesterov = true, .weight_decay = 1},
               900}},
             {{RmsPropOptions{.momentum = 0.5}, 40, gradient},
              {RmsPropOptions{.alpha = 0, .momentum = 0.5, .centered = true}, 40},
              {RmsPropOptions{.alpha = 0.5}, 400}},
             {{W{.beta1 = 0.5, .weight_decay = 0.1}, 200, gradient},
              {W{.learning_rate = 1, .beta1 = 0, .weight_decay = 1, .amsgrad = true}, 100}},
             {{AdamOptions{.beta1 = 0.5}, 200, gradient}, {AdamOptions{.beta1 = 0}, 100}}})
      expect_dense_numbers(numbers, phases);
  }
}

}  // namespace
