// What lazy updates cost, and how exact they are after a long time.

#include "tests/optim/lazy_rows.hpp"

namespace {

template <class Made>
std::uint64_t work_of_steps(std::size_t rows, const typename Made::Options& options) {
  Parameter table("table", zeros({rows, 2}));
  Made optimizer({&table}, options);
  for (int i = 0; i < 50; ++i) {
    const std::int32_t row = (i * 7) % 900;
    Tape tape;
    optimizer.zero_grad();
    tape.backward(sum(embedding(tape.parameter(table), ids({3}, {row, row + 20, row}))));
    optimizer.step();
  }
  return optimizer.rows_visited();
}

template <class Made>
void expect_work_of_the_rows(const typename Made::Options& options, std::uint64_t most) {
  const std::uint64_t work = work_of_steps<Made>(1000, options);
  EXPECT_LE(work, most);
  EXPECT_GE(work, 50U * 2);
  for (const std::size_t rows : {10'000, 200'000})
    EXPECT_EQ(work_of_steps<Made>(rows, options), work) << rows;
}

TEST(LazyRowsOf, AStepCostsTheRowsLookedUpWhateverTheTable) {
  // Three rows looked up and two updated in each of 50 steps; nothing is read in the first.
  expect_work_of_the_rows<SGD>(kMomentum, 50 * 5);
  expect_work_of_the_rows<RMSprop>({}, 50 * 5);
  expect_work_of_the_rows<Adagrad>({}, 50 * 5);
  expect_work_of_the_rows<Adam>(kAdam, 50 * 5);
  expect_work_of_the_rows<AdamW>({}, 50 * 5);
}

TEST(LazyRowsOf, ALongRunWithAScheduleAreSettledNowAndThen) {
  // No two steps are alike: rows that were not read for thousands of steps are settled.
  Parameter table("table", zeros({1000, 4}));
  SGD optimizer({&table}, kMomentum);
  constexpr int kSteps = 20'000;
  for (int i = 0; i < kSteps; ++i) {
    optimizer.set_learning_rate(0.1 + 1e-6 * i);
    step(optimizer, table, {i % 1000}, i);
  }
  EXPECT_GE(optimizer.rows_visited(), kSteps);
  EXPECT_LE(optimizer.rows_visited(), kSteps + 5 * 1000);
}

TEST(LazyRowsOf, AdamReplayNothingUnlessDecayIsInTheGradient) {
  for (const double decay : {0.0, 0.1}) {
    Parameter table("table", irregular({1000, 4}));
    Adam optimizer({&table}, {.weight_decay = decay});
    step(optimizer, table, {1, 2});
    for (int i = 0; i < 2000; ++i) step(optimizer, table, {2}, i);
    const std::uint64_t before = optimizer.rows_visited();
    table.value();
    EXPECT_EQ(optimizer.rows_visited() - before, decay == 0 ? 1000U : 1000U + 999 * 2001 - 1);
  }
}

template <class Made>
void expect_exact_after_long_absence(const typename Made::Options& options) {
  RowsAndDense<Made> twins(irregular({3, 4}), options);
  twins.step(gradient({3, 4}, {0, 1, 2}));
  twins.give(gradient({3, 4}, {2}));
  for (int i = 0; i < 100'000; ++i) {
    if (i % 1000 == 0)  // the rate changes meanwhile
      twins.set_learning_rate(options.learning_rate * (1 + 0.5 * (i / 1000 % 3)));
    twins.step();
  }
  const std::uint64_t before = twins.optimizer->rows_visited();
  // 100,000 roundings: in float each may take half a unit of the last place.
  const double tolerance = sizeof(real) == 8 ? 1e-9 : 1e5 * kEpsilon / 2;
  twins.expect_equal_rows({0, 1}, tolerance);
  EXPECT_EQ(twins.optimizer->rows_visited() - before, 2U);
}

TEST(LazyRowsOf, ARowAwayFor100000StepsAreThoseOfTheDenseOptimizer) {
  expect_exact_after_long_absence<SGD>(
      {.learning_rate = 1e-3, .momentum = 0.9, .weight_decay = 1e-3});
  expect_exact_after_long_absence<SGD>(
      {.learning_rate = 1e-4, .momentum = 0.999, .nesterov = true, .weight_decay = 1e-2});
  expect_exact_after_long_absence<RMSprop>({.learning_rate = 1e-3, .momentum = 0.9});
  expect_exact_after_long_absence<AdamW>({});
}

TEST(LazyRowsOf, AHistoryThatGrowsTooLongIsSettled) {
  // The rate changes every step, so that no two steps are alike.
  RowsAndDense<SGD> twins(irregular({4, 3}), kMomentum);
  twins.give(gradient({4, 3}, {2}));
  for (int i = 0; i < 9000; ++i) {
    twins.set_learning_rate(1e-3 * (1 + i % 2) + 1e-8 * i);
    twins.step();
  }
  EXPECT_LT(twins.optimizer->state_dict().integers("table.lazy.steps").size(), 4098U);
  const double tolerance = sizeof(real) == 8 ? 1e-10 : 9000 * kEpsilon;
  twins.expect_equal(tolerance);
}

// Thousands of steps, no two alike, of 1,500 rows of which two are looked up in each.
template <class Made>
class LongRun {
 public:
  LongRun() : table("table", irregular({1500, 2})) {}

  void run(int from, int to, bool dense = false) {
    for (int i = from; i < to; ++i) {
      optimizer->set_learning_rate(1e-3 + 1e-7 * i);
      const RowGradient rows = gradient({1500, 2}, {i % 7, 7 + i % 1493}, i);
      table.zero_gradient();
      table.add_gradient(dense ? Gradient(rows.to_dense()) : Gradient(rows));
      const std::uint64_t before = optimizer->rows_visited();
      optimizer->step();
      most_visited = std::max(most_visited, optimizer->rows_visited() - before);
    }
  }

  Parameter table;
  std::unique_ptr<Made> optimizer =
      std::make_unique<Made>(std::vector<Parameter*>{&table}, options());
  std::uint64_t most_visited = 0;

 private:
  static typename Made::Options options() {
    typename Made::Options options;
    if constexpr (std::is_same_v<Made, SGD>) options = kMomentum;
    return options;
  }
};

template <class Made>
void expect_even_work(std::uint64_t most_visited) {
  constexpr int kSteps = 6500;
  LongRun<Made> whole, dense;
  whole.run(0, kSteps);
  EXPECT_LE(whole.most_visited, most_visited);
  EXPECT_LT(whole.optimizer->state_dict().integers("table.lazy.steps").size(), 4096U);

  LongRun<Made> stopped;  // looked at now and then, and resumed while it settles
  int from = 0;
  for (const int to : {2100, 3001, 4095, 4096, 5000, kSteps}) {
    stopped.run(from, to);
    const Tensor value = stopped.table.value();
    const Checkpoint state = stopped.optimizer->state_dict();
    stopped.optimizer = std::make_unique<Made>(std::vector<Parameter*>{&stopped.table},
                                               stopped.optimizer->options());
    stopped.table.assign(value);
    stopped.optimizer->load_state_dict(state);
    from = to;
  }
  EXPECT_EQ(stopped.table.value(), whole.table.value());
  EXPECT_TRUE(bits_of(stopped.optimizer->state_dict()) == bits_of(whole.optimizer->state_dict()));

  dense.run(0, kSteps, true);
  const double tolerance = sizeof(real) == 8 ? 1e-10 : kSteps * kEpsilon;
  expect_near(whole.table.value(), dense.table.value(), tolerance);
}

TEST(LazyRowsOf, ALongRunAreSettledAFewAtATime) {
  // Two rows that are looked up, and one of 1,500 in 2,048 steps.
  expect_even_work<SGD>(2 + 1);
  expect_even_work<Adam>(2 + 1);
}

// Another version might have saved a state in the middle of a pass from which a row is missing.
TEST(LazyRowsOf, AStateOfARowThatMissedItsTurnAreSettledBeforeTheirStepsAreForgotten) {
  Tensor start = irregular({3, 2});
  std::copy_n(start.data() + 4, 2, start.data());  // rows 0 and 2 are alike
  Parameter table("table", start);
  SGD optimizer({&table}, kMomentum);
  const auto run = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      optimizer.set_learning_rate(1e-3 + 1e-7 * i);
      step(optimizer, table, {1}, i);
    }
  };
  run(0, 3000);
  Checkpoint state = without(optimizer.state_dict(), "table.lazy.checksum");
  auto at = state.integers("table.lazy.at");
  ASSERT_LT(at[2], at[0]);  // row 0 has had its turn, and row 2 has not
  at[0] = at[2];
  state = with(state, "table.lazy.at", at);
  Tensor value = table.copy();
  std::copy_n(value.data() + 4, 2, value.data());
  for (const std::string name : {"table.lazy.values", "table.momentum"}) {
    Tensor rows = state.tensor(name, {3, 2});
    std::copy_n(rows.data() + 4, 2, rows.data());
    state = with(state, name, rows);
  }
  table.assign(value);
  optimizer.load_state_dict(state);
  ASSERT_EQ(optimizer.state_dict().integers("table.lazy.at")[0], at[2]);
  run(3000, 5000);  // the first half of the history is forgotten
  EXPECT_EQ(table.rows(std::vector<std::int32_t>{0}), table.rows(std::vector<std::int32_t>{2}));
}

}  // namespace
