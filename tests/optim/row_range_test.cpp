// Deferred steps must match the dense optimizer if values or composed coefficients are near the
// limits of the range of `real`, beyond them, or NaN.

#include "tests/optim/optimizers.hpp"

namespace {

constexpr real kMax = std::numeric_limits<real>::max();

real power_of_ten(int exponent) { return static_cast<real>(std::pow(10.0, exponent)); }

// Expects values that are equal up to `roundings` roundings, both NaN, or the same infinity.
// Subnormal values count as zero.
void expect_same(const Tensor& rows, const Tensor& dense, double roundings) {
  ASSERT_EQ(rows.shape(), dense.shape());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double a = rows.data()[i], b = dense.data()[i];
    if (same(a, b)) continue;
    ASSERT_TRUE(std::isfinite(b)) << "value " << i << ": " << a << ", dense " << b;
    ASSERT_NEAR(a, b, roundings * kEpsilon * std::abs(b) + std::numeric_limits<real>::min()) << i;
  }
}

struct Phase {
  AnyOptions options;
  int steps;
  real gradient = 0;  // gradient of row 0 in the first step; 0 for none
};

// Compares training with row gradients and with dense gradients after each phase, with a tolerance
// of `roundings` for each step. Row 0 starts from `start_values`; row 1 has a gradient in every
// step.
void expect_dense_values(const std::vector<real>& start_values, const std::vector<Phase>& phases,
                         double roundings = 20) {
  const std::size_t width = start_values.size();
  Tensor start = irregular({2, width});
  std::copy(start_values.begin(), start_values.end(), start.data());
  RowsAndDense twins(start, phases.front().options);
  int steps = 0;
  for (const Phase& phase : phases) {
    set_options(*twins.optimizer, phase.options);
    set_options(*twins.dense_optimizer, phase.options);
    for (int i = 0; i < phase.steps; ++i) {
      const Ids32 rows = i == 0 && phase.gradient != 0 ? Ids32{0, 1} : Ids32{1};
      Tensor values = irregular({rows.size(), width}, i);
      if (rows.size() == 2) std::fill_n(values.data(), width, phase.gradient);
      twins.step(RowGradient({2, width}, rows, values));
    }
    steps += phase.steps;
    SCOPED_TRACE(concat("after ", steps, " steps"));
    expect_same(twins.table.rows(Ids32{0}), twins.dense.rows(Ids32{0}), roundings * steps);
  }
  twins.table.mutable_values();  // applies all deferred steps
  expect_same(twins.table.value(), twins.dense.value(), roundings * steps);
  const StateDict states = twins.optimizer->state_dict();
  const StateDict dense_states = twins.dense_optimizer->state_dict();
  ASSERT_EQ(states.names(), dense_states.names());
  for (const std::string& name : dense_states.names()) {
    if (name == "table.step") continue;
    SCOPED_TRACE(name);
    expect_same(states.tensor(name, {2, width}), dense_states.tensor(name, {2, width}),
                roundings * steps);
  }
}

constexpr SgdOptions decayed(double decay) { return {.learning_rate = 1, .weight_decay = decay}; }

constexpr AdamWOptions decoupled(double decay) {
  return {.learning_rate = 1, .weight_decay = decay};
}

TEST(RowRange, ExtremeCoefficientsGiveOrdinaryProducts) {
  for (const AnyOptions& options : {AnyOptions(decayed(11)), AnyOptions(decoupled(11))})
    expect_dense_values({power_of_ten(-12), -power_of_ten(-13), 0}, {{options, 45}});
  for (const AnyOptions& options : {AnyOptions(decayed(0.9)), AnyOptions(decoupled(0.9))})
    for (const int steps : {35, 40, 45, 50, 55})
      expect_dense_values({power_of_ten(20), -power_of_ten(19), 1, 0}, {{options, steps}});
  // Adam's steps matter once decay has made the row small.
  expect_dense_values({power_of_ten(20), -power_of_ten(20)}, {{decoupled(0.9), 45, 1}});
}

TEST(RowRange, TinyCoefficientsKeepLargeStates) {
  for (const int steps : {120, 140, 150, 160})
    for (const int exponent : {1, 8, 20}) {
      const real gradient = power_of_ten(exponent);
      expect_dense_values({1, 2, 3}, {{SgdOptions{.momentum = 0.5}, steps, gradient}});
      expect_dense_values(
          {1, 2, 3}, {{RmsPropOptions{.alpha = 0.5, .momentum = 0.25}, steps, gradient / 100}});
    }
}

TEST(RowRange, OverflowIsPermanent) {
  const std::vector<real> values{1, -power_of_ten(-10), power_of_ten(-22), 0};
  expect_dense_values(values, {{decayed(11), 60}, {decayed(0.9), 70}});
  expect_dense_values(values, {{decoupled(11), 60}, {decoupled(0.9), 70}});
  const SgdOptions grows{.learning_rate = 1, .momentum = 2};
  expect_dense_values(
      {1, -1}, {{grows, 300, 1},
                {SgdOptions{.learning_rate = 1, .momentum = 0.5, .weight_decay = 0.1}, 200}});
  expect_dense_values({0, 0}, {{grows, 3000}});  // row 1 diverges
  // Overflow within a step: weight_decay · w is infinite, although a step subtracts only 0.1 of it.
  expect_dense_values(
      {kMax / 8, -kMax / 16, 1},
      {{SgdOptions{.learning_rate = 0.1, .momentum = 0.5, .nesterov = true, .weight_decay = 11},
        60}});
  // In float, a row stops changing after a gradient whose square overflows.
  for (const AnyOptions& options :
       {AnyOptions(AdamOptions()), AnyOptions(AdamWOptions()), AnyOptions(RmsPropOptions())})
    expect_dense_values({-0.3F, 0.5F, 0.9F}, {{options, 3}, {options, 897, power_of_ten(22)}}, 1);
}

TEST(RowRange, NonFiniteValuesMatchTheDenseOptimizer) {
  const std::vector<real> values{1, NAN, kInfinity, -kInfinity, kMax, -kMax, kMax / 3, 0, 2};
  for (const real gradient : {real{0}, real{1}, kMax / 8, kInfinity, real{NAN}}) {
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
      expect_dense_values(values, phases);
  }
}

}  // namespace
