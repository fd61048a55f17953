// The cost of deferred steps, and their accuracy after a long absence.

#include "tests/optim/optimizers.hpp"

namespace {

std::uint64_t work_of_steps(std::size_t rows, const AnyOptions& options) {
  Parameter table("table", zeros({rows, 2}));
  const auto optimizer = make_optimizer(options, {&table});
  for (int i = 0; i < 50; ++i) {
    const std::int32_t row = (i * 7) % 900;
    Tape tape;
    optimizer->zero_grad();
    tape.backward(sum(embedding(tape.parameter(table), ids({3}, {row, row + 20, row}))));
    optimizer->step();
  }
  return optimizer->rows_visited();
}

TEST(DeferredRowsOf, AStepCostsTheRowsLookedUpNotTheTableSize) {
  for (const AnyOptions& options :
       {AnyOptions(kMomentum), AnyOptions(RmsPropOptions()), AnyOptions(AdagradOptions()),
        AnyOptions(kAdam), AnyOptions(AdamWOptions())}) {
    const std::uint64_t work = work_of_steps(1000, options);
    // Each of 50 steps looks up three ids and updates two rows; the first lookup has no deferred
    // steps.
    EXPECT_LE(work, 50U * 5);
    EXPECT_GE(work, 50U * 2);
    for (const std::size_t rows : {10'000, 200'000})
      EXPECT_EQ(work_of_steps(rows, options), work) << rows;
  }
}

// Adam with weight decay has no closed form for steps without a gradient.
TEST(DeferredRowsOf, ReplayedStepsAreCounted) {
  Parameter table("table", irregular({3, 4}));
  const auto optimizer = make_optimizer(AdamOptions{.weight_decay = 0.01}, {&table});
  step(*optimizer, table, {0, 1});
  for (int i = 0; i < 20; ++i) step(*optimizer, table, {0});
  const std::uint64_t before = optimizer->rows_visited();
  table.rows(Ids32{1});
  EXPECT_EQ(optimizer->rows_visited() - before, 2U + 20U);  // read, brought up to date, 20 steps
}

TEST(DeferredRowsOf, RowAwayFor100000StepsMatchesTheDenseOptimizer) {
  for (const AnyOptions& options :
       {AnyOptions(SgdOptions{.learning_rate = 1e-3, .momentum = 0.9, .weight_decay = 1e-3}),
        AnyOptions(SgdOptions{
            .learning_rate = 1e-4, .momentum = 0.999, .nesterov = true, .weight_decay = 1e-2}),
        AnyOptions(RmsPropOptions{.learning_rate = 1e-3, .momentum = 0.9}),
        AnyOptions(AdamWOptions())}) {
    RowsAndDense twins(irregular({3, 4}), options);
    const double rate = twins.optimizer->learning_rate();
    twins.step(gradient({3, 4}, {0, 1, 2}));
    twins.set_gradients(gradient({3, 4}, {2}));
    for (int i = 0; i < 100'000; ++i) {
      if (i % 1000 == 0)
        for (Optimizer* optimizer : {twins.optimizer.get(), twins.dense_optimizer.get()})
          optimizer->set_learning_rate(rate * (1 + 0.5 * (i / 1000 % 3)));
      twins.step();
    }
    const std::uint64_t before = twins.optimizer->rows_visited();
    const Ids32 away{0, 1};
    // In float: 100,000 roundings, each off by up to half a unit in the last place.
    const double tolerance = sizeof(real) == 8 ? 1e-9 : 1e5 * kEpsilon / 2;
    expect_near(twins.table.rows(away), twins.dense.rows(away), tolerance);
    EXPECT_EQ(twins.optimizer->rows_visited() - before, 2U);
  }
}

// Checks the bound of optim/DEFERRED_STEPS.md: AdamW's factor is rounded by up to a quarter of an
// epsilon, in dense and in deferred steps.
TEST(DeferredRowsOf, AdamWDecayMatchesTheDenseStep) {
  constexpr int kSteps = 3000;
  for (const auto& [rate, decay] :
       {std::pair(1e-5, 0.01), {1e-3, 0.01}, {1e-6, 0.01}, {0.1, 0.1}}) {
    Parameter table("table", full({2, 3}, 1));
    AdamW optimizer({&table}, {.learning_rate = rate, .weight_decay = decay});
    for (int i = 0; i < kSteps; ++i) step(optimizer, table, {1}, i);
    const auto factor = static_cast<real>(1 - rate * decay);
    const long double expected = std::pow(static_cast<long double>(factor), kSteps);
    const long double found = table.rows(Ids32{0})(0, 0);
    // One rounding of the value, and at most kSteps roundings of the composed coefficient.
    const long double composed = kSteps * std::numeric_limits<Coefficient>::epsilon();
    EXPECT_LE(std::abs(found - expected), (kEpsilon + composed) * expected) << rate;
    const long double exact = std::pow(1 - static_cast<long double>(rate) * decay, kSteps);
    EXPECT_LE(std::abs(found - exact), (kSteps / 4.0L + 1) * kEpsilon) << rate;
    if (sizeof(real) == 4 && rate == 1e-5) {
      EXPECT_NEAR((1 - found) / (1 - exact), 1.192, 1e-3);
    }
  }
}

// Makes thousands of different steps of a table with 1,500 rows. Two rows have gradients in each
// step.
TEST(DeferredRowsOf, LongHistoryIsAppliedGradually) {
  constexpr int kSteps = 6500;
  const Shape shape{1500, 2};
  for (const AnyOptions& options : {AnyOptions(kMomentum), AnyOptions(AdamOptions())}) {
    RowsAndDense twins(irregular(shape), options);
    Parameter stopped("table", irregular(shape));  // read, saved and loaded now and then
    auto optimizer = make_optimizer(options, {&stopped});
    std::uint64_t most_visited = 0;
    for (int i = 0; i < kSteps; ++i) {
      for (Optimizer* each : {twins.optimizer.get(), twins.dense_optimizer.get(), optimizer.get()})
        each->set_learning_rate(1e-3 + 1e-7 * i);
      const Ids32 rows{i % 7, 7 + i % 1493};
      const std::uint64_t before = twins.optimizer->rows_visited();
      twins.step(gradient(shape, rows, i));
      most_visited = std::max(most_visited, twins.optimizer->rows_visited() - before);
      step(*optimizer, stopped, rows, i);
      if (!std::set{2100, 3001, 4095, 4096, 5000, kSteps}.contains(i + 1)) continue;
      const Tensor value = stopped.value();
      const StateDict state = optimizer->state_dict();
      optimizer = make_optimizer(options, {&stopped});
      stopped.assign(value);
      optimizer->load_state_dict(state);
    }
    // The two rows with gradients, and one of the 1,500 rows that 2,048 steps bring up to date.
    EXPECT_LE(most_visited, 2U + 1U);
    EXPECT_LT(twins.optimizer->state_dict().integers("table.lazy.steps").size(), 4096U);
    EXPECT_TRUE(bits_of(stopped, *optimizer) == bits_of(twins.table, *twins.optimizer));
    const double tolerance = sizeof(real) == 8 ? 1e-10 : kSteps * kEpsilon;
    expect_near(twins.table.value(), twins.dense.value(), tolerance);
  }
}

// After 4,096 different steps, the first half of the history is dropped.
TEST(DeferredRowsOf, RowsWithoutOldStepsAreNotVisited) {
  Parameter table("table", irregular({1, 2}));
  SGD optimizer({&table}, kMomentum);
  for (int i = 1; i <= 4096; ++i) {
    optimizer.set_learning_rate(1e-3 + 1e-7 * i);
    step(optimizer, table, i == 2048 ? Ids32{0} : Ids32{}, i);
  }
  EXPECT_EQ(optimizer.rows_visited(), 1U);
  EXPECT_EQ(optimizer.state_dict().integers("table.lazy.steps").size(), 2048U);
}

}  // namespace
