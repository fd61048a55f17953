// Rows whose values, or the factors that many steps multiply them by, are near the limits of the
// range of `real`, beyond it, or NaN: postponed updates must give what the dense optimizer gives.

#include "tests/optim/lazy_rows.hpp"

namespace {

// The range of double has some eight times as many powers of ten as that of float.
constexpr int kWider = sizeof(real) == 8 ? 8 : 1;

real power_of_ten(int exponent) { return static_cast<real>(std::pow(10.0, exponent * kWider)); }

// Equal up to that many roundings, both NaN, or the same infinity. Subnormal numbers count as zero.
::testing::AssertionResult same(const Tensor& rows, const Tensor& dense, int roundings) {
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

template <class Made>
struct Phase {
  typename Made::Options options;
  int steps;
};

// Row 0 starts from `numbers` and gets `gradient` in the first step, then nothing; row 1 gets
// something in every step. Numbers and states are compared after each phase.
template <class Made>
void expect_dense_numbers(const std::vector<real>& numbers, real gradient,
                          const std::vector<Phase<Made>>& phases) {
  const std::size_t width = numbers.size();
  Tensor start = irregular({2, width});
  std::copy(numbers.begin(), numbers.end(), start.data());
  RowsAndDense<Made> twins(start, phases.front().options);
  bool first = true;
  int steps = 0;
  for (const auto& phase : phases) {
    twins.both([&](Made& each) { each.set_options(phase.options); });
    for (int i = 0; i < phase.steps; ++i) {
      const bool both = std::exchange(first, false) && gradient != 0;
      Tensor values = irregular({both ? 2U : 1U, width}, i);
      if (both) std::fill_n(values.data(), width, gradient);
      twins.step(RowGradient({2, width}, both ? std::vector{0, 1} : std::vector{1}, values));
    }
    steps += phase.steps;
    const std::vector<std::int32_t> zero{0};
    ASSERT_TRUE(same(twins.table->rows(zero), twins.dense.rows(zero), 20 * steps))
        << "after " << steps;
  }
  twins.table->mutable_values();  // settles all
  ASSERT_TRUE(same(twins.table->value(), twins.dense.value(), 20 * steps));
  const Checkpoint states = twins.optimizer->state_dict();
  const Checkpoint dense_states = twins.dense_optimizer->state_dict();
  ASSERT_EQ(states.names(), dense_states.names());
  ASSERT_EQ(states.count("table.step"), dense_states.count("table.step"));
  for (const std::string& name : dense_states.names()) {
    if (name == "table.step") continue;
    ASSERT_TRUE(same(states.tensor(name, start.shape()), dense_states.tensor(name, start.shape()),
                     20 * steps))
        << name;
  }
}

constexpr SgdOptions decayed(double decay) { return {.learning_rate = 1, .weight_decay = decay}; }

TEST(RowRange, AProductMayBeThereThoughTheCoefficientIsTooLarge) {
  expect_dense_numbers<SGD>({power_of_ten(-12), -power_of_ten(-13), 0}, 0,
                            {{decayed(11), 45 * kWider}});
  expect_dense_numbers<AdamW>({power_of_ten(-12), -power_of_ten(-13), 0}, 0,
                              {{{.learning_rate = 1, .weight_decay = 11}, 45 * kWider}});
}

TEST(RowRange, AProductMayBeThereThoughTheCoefficientIsTooSmall) {
  for (const int steps : {35, 40, 45, 50, 55}) {
    const std::vector<real> numbers{power_of_ten(20), -power_of_ten(19), 1, 0};
    expect_dense_numbers<SGD>(numbers, 0, {{decayed(0.9), steps * kWider}});
    expect_dense_numbers<AdamW>(numbers, 0,
                                {{{.learning_rate = 1, .weight_decay = 0.9}, steps * kWider}});
  }
}

TEST(RowRange, StepsOfAdamWMayMatterOnceDecayHasMadeTheRowSmall) {
  expect_dense_numbers<AdamW>({power_of_ten(20), -power_of_ten(20)}, 1,
                              {{{.learning_rate = 1, .weight_decay = 0.9}, 45 * kWider}});
}

TEST(RowRange, AStateMayBeThereThoughItsCoefficientIsTooSmall) {
  for (const int steps : {120, 140, 150, 160})
    for (const int exponent : {1, 8, 20}) {
      expect_dense_numbers<SGD>({1, 2, 3}, power_of_ten(exponent),
                                {{{.momentum = 0.5}, steps * kWider}});
      expect_dense_numbers<RMSprop>({1, 2, 3}, power_of_ten(exponent) / 100,
                                    {{{.alpha = 0.5, .momentum = 0.25}, steps * kWider}});
    }
}

TEST(RowRange, WhatOverflowsOnTheWayDoesNotComeBack) {
  const std::vector<real> numbers{1, -power_of_ten(-10), power_of_ten(-22), 0};
  expect_dense_numbers<SGD>(numbers, 0, {{decayed(11), 60 * kWider}, {decayed(0.9), 70 * kWider}});
  expect_dense_numbers<AdamW>(numbers, 0,
                              {{{.learning_rate = 1, .weight_decay = 11}, 60 * kWider},
                               {{.learning_rate = 1, .weight_decay = 0.9}, 70 * kWider}});
  expect_dense_numbers<SGD>({1, -1}, 1,
                            {{{.learning_rate = 1, .momentum = 2}, 300 * kWider},
                             {{.learning_rate = 1, .momentum = 0.5, .weight_decay = 0.1}, 200}});
}

TEST(RowRange, WhatOverflowsWithinAStepDoesNotComeBack) {
  // weight_decay · w is infinite, though a step only takes 0.1 of it away.
  constexpr real kMost = std::numeric_limits<real>::max();
  expect_dense_numbers<SGD>(
      {kMost / 8, -kMost / 16, 1}, 0,
      {{{.learning_rate = 0.1, .momentum = 0.5, .nesterov = true, .weight_decay = 11}, 60}});
}

TEST(RowRange, WhatIsNoNumberOrInfiniteStaysAsUnderTheDenseOptimizer) {
  constexpr real kMost = std::numeric_limits<real>::max();
  const std::vector<real> numbers{1, NAN, kInfinity, -kInfinity, kMost, -kMost, kMost / 3, 0, 2};
  for (const real gradient : {real{0}, real{1}, kMost / 8, kInfinity, real{NAN}}) {
    SCOPED_TRACE(gradient);
    expect_dense_numbers<SGD>(numbers, gradient, {{decayed(0.01), 41}, {decayed(0.9), 300}});
    expect_dense_numbers<SGD>(
        numbers, gradient,
        {{{.learning_rate = 0.1, .momentum = 0.9}, 13},
         {{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1}, 50},
         {{.learning_rate = 1, .momentum = 0.5, .nesterov = true, .weight_decay = 1}, 900}});
    expect_dense_numbers<RMSprop>(numbers, gradient,
                                  {{{.momentum = 0.5}, 40},
                                   {{.alpha = 0, .momentum = 0.5, .centered = true}, 40},
                                   {{.alpha = 0.5}, 400}});
    expect_dense_numbers<AdamW>(
        numbers, gradient,
        {{{.beta1 = 0.5, .weight_decay = 0.1}, 200},
         {{.learning_rate = 1, .beta1 = 0, .weight_decay = 1, .amsgrad = true}, 100}});
    expect_dense_numbers<Adam>(numbers, gradient, {{{.beta1 = 0.5}, 200}, {{.beta1 = 0}, 100}});
  }
}

TEST(RowRange, ReadingChangesNoBitOfRowsThatAreReplayed) {
  const auto run = [](bool looking) {
    Tensor start = irregular({3, 9});
    start(0, 1) = NAN;
    start(0, 2) = kInfinity;
    start(0, 3) = power_of_ten(36);
    Parameter table("table", start);
    SGD optimizer({&table});
    for (int i = 0; i < 200; ++i) {
      optimizer.set_options({.learning_rate = 0.1,
                             .momentum = 0.9,
                             .weight_decay = i % 50 < 10 ? 25.0 : 1.0 + i % 3});
      table.zero_gradient();
      table.add_gradient(RowGradient({3, 9}, {1 + i % 2}, irregular({1, 9}, i)));
      optimizer.step();
      if (looking && i % 7 == 0) table.rows(std::vector<std::int32_t>{0, 2});
      if (looking && i % 31 == 0) table.value();
    }
    table.mutable_values();
    return bits_of(table, optimizer);
  };
  EXPECT_TRUE(run(true) == run(false));
}

}  // namespace
