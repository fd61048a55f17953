// How rows are brought up to date: when, and what readers can rely on.

#include "tests/optim/lazy_rows.hpp"

namespace {

template <class Made>
class LazyRowsTest : public OfEachOptimizer<Made> {};
TYPED_TEST_SUITE(LazyRowsTest, Optimizers);

TYPED_TEST(LazyRowsTest, TheBitsOfARunDoNotDependOnWhoLooked) {
  const auto run = [](bool looking) {
    Parameter table("table", irregular({13, 9}));
    TypeParam optimizer({&table}, TestFixture::options());
    train(optimizer, table, 0, 500, [&](int i) {
      if (!looking) return;
      table.rows(std::vector<std::int32_t>{0, 1, 1, 5});
      if (i % 97 == 0) table.value();
      if (i % 131 == 0) optimizer.state_dict();
    });
    table.mutable_values();  // settles the states too
    Checkpoint all = optimizer.state_dict();
    all.put("table", table.value());
    return bits_of(all);
  };
  EXPECT_TRUE(run(false) == run(true));
}

TYPED_TEST(LazyRowsTest, AreTheSameForAnyNumberOfThreads) {
  const auto run = [](int threads) {
    const Threads limited(threads);
    Parameter table("table", irregular({700, 96}));
    TypeParam optimizer({&table}, TestFixture::options());
    std::vector<std::int32_t> many;
    for (std::int32_t i = 0; i < 699; i += 2) many.push_back(i);
    train(optimizer, table, 0, 20, [](int) {});
    step(optimizer, table, many);
    table.rows(many);
    train(optimizer, table, 20, 40, [](int) {});
    return Tensor(table.value());
  };
  EXPECT_EQ(run(1), run(2));
  EXPECT_EQ(run(1), run(3));
}

TYPED_TEST(LazyRowsTest, KeepTheirValueWhenTheOptimizerGoes) {
  Parameter table("table", irregular({13, 9}));
  Parameter reference("reference", irregular({13, 9}));
  TypeParam reference_optimizer({&reference}, TestFixture::options());
  train(reference_optimizer, reference, 0, 30, [](int) {});
  {
    TypeParam optimizer({&table}, TestFixture::options());
    train(optimizer, table, 0, 30, [](int) {});
  }
  EXPECT_EQ(table.value(), reference.value());
  {
    auto parameter = std::make_unique<Parameter>("x", irregular({13, 9}));
    TypeParam outlives_its_parameter({parameter.get()}, TestFixture::options());
    train(outlives_its_parameter, *parameter, 0, 30, [](int) {});
    parameter.reset();
  }
}

// The dense optimizer's step, done to a copy.
template <class Made>
Tensor dense_steps(const Tensor& start, const typename Made::Options& options, int count,
                   std::vector<std::int32_t> rows) {
  Parameter dense("dense", start);
  Made optimizer({&dense}, options);
  for (int i = 0; i < count; ++i) {
    optimizer.zero_grad();
    dense.add_gradient(gradient(start.shape(), rows, i).to_dense());
    optimizer.step();
  }
  return dense.value();
}

TEST(LazyRowsOf, ATapeAreReadByLookupsAndByDenseOps) {
  const Tensor start = irregular({6, 4});
  const Tensor expected = dense_steps<SGD>(start, kMomentum, 20, {2, 3});
  Parameter table("table", start);
  SGD optimizer({&table}, kMomentum);
  for (int i = 0; i < 20; ++i) step(optimizer, table, {2, 3}, i);
  Tape tape(Tape::inference);
  const Variable variable = tape.parameter(table);
  EXPECT_EQ(variable.shape(), Shape({6, 4}));
  const Tensor looked_up = embedding(variable, ids({6}, {0, 1, 2, 3, 4, 5})).value();
  expect_near(looked_up, expected, kTwentySteps);
  const Variable one_by_one = tape.constant([] {
    Tensor identity = zeros({6, 6});
    for (std::size_t i = 0; i < 6; ++i) identity(i, i) = 1;
    return identity;
  }());
  expect_near(matmul(one_by_one, variable).value(), expected, kTwentySteps);
  expect_near(variable.value(), expected, kTwentySteps);
}

TEST(LazyRowsOf, ATableInTwoLayersAreOwedOnce) {
  const Tensor start = irregular({8, 3});
  Parameter table("table", start);
  Parameter dense("dense", start);
  SGD optimizer({&table}, kMomentum);
  SGD dense_optimizer({&dense}, kMomentum);
  for (int i = 0; i < 12; ++i) {
    for (auto* item : {&table, &dense}) {
      item->zero_gradient();
      Tape tape;
      const EmbeddingLookup options{.dense_gradient = item == &dense};
      const Variable first = embedding(tape.parameter(*item), ids({2}, {1, i % 4}), options);
      const Variable second = embedding(tape.parameter(*item), ids({2}, {5, 1}), options);
      tape.backward(sum(first * second));
    }
    EXPECT_TRUE(table.gradient().is_rows());
    optimizer.step();
    dense_optimizer.step();
  }
  expect_near(table.value(), dense.value(), kTwentySteps);
}

TEST(LazyRowsOf, AFrozenTableAreOwedNothingNew) {
  const Tensor start = irregular({6, 4});
  const Tensor expected = dense_steps<SGD>(start, kMomentum, 5, {1});
  Parameter table("table", start);
  SGD optimizer({&table}, kMomentum);
  for (int i = 0; i < 5; ++i) step(optimizer, table, {1}, i);
  table.set_trainable(false);
  for (int i = 0; i < 5; ++i) step(optimizer, table, {2}, i);
  expect_near(table.value(), expected, kTwentySteps);
}

TEST(LazyRowsOf, AnEmptyRowGradientAreOwedAStepAllTheSame) {
  const Tensor start = irregular({4, 3});
  Parameter table("table", start);
  SGD optimizer({&table}, {.learning_rate = 0.5, .weight_decay = 0.5});
  step(optimizer, table, {});
  for (std::size_t i = 0; i < start.size(); ++i)
    EXPECT_EQ(table.value().data()[i], start.data()[i] * static_cast<real>(0.75));
}

TEST(LazyRowsOf, TwoOptimizersInTurnAreThoseOfBoth) {
  const Tensor start = irregular({6, 4});
  Parameter table("table", start);
  Parameter dense("dense", start);
  SGD sgd({&table}, kMomentum);
  Adam adam({&table}, kAdam);
  SGD dense_sgd({&dense}, kMomentum);
  Adam dense_adam({&dense}, kAdam);
  for (int i = 0; i < 12; ++i) {
    const RowGradient rows = gradient({6, 4}, {1, 2 + i % 3}, i);
    give(table, dense, rows);
    const bool first = i % 4 < 2;
    (first ? static_cast<Optimizer&>(sgd) : adam).step();
    (first ? static_cast<Optimizer&>(dense_sgd) : dense_adam).step();
  }
  expect_near(table.value(), dense.value(), kTwentySteps);
}

TEST(TouchedOnly, LeavesTheOtherRowsAndTheirStatesAlone) {
  const Tensor start = irregular({6, 4});
  Parameter table("table", start);
  Adam optimizer({&table}, {.learning_rate = 0.1, .rows = RowUpdates::kTouchedOnly});
  step(optimizer, table, {1, 4}, 0);
  const Tensor after_one = table.value();
  for (int i = 1; i < 5; ++i) step(optimizer, table, {4}, i);
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(table.value()(row, i) == start(row, i), row != 1 && row != 4) << row;
      EXPECT_EQ(table.value()(row, i) == after_one(row, i), row != 4) << row;
    }
  // The exact policy moves row 1 on with its momentum.
  Parameter exact("exact", start);
  Adam exact_optimizer({&exact}, {.learning_rate = 0.1});
  step(exact_optimizer, exact, {1, 4}, 0);
  for (int i = 1; i < 5; ++i) step(exact_optimizer, exact, {4}, i);
  EXPECT_GT(std::abs(exact.value()(1, 0) - after_one(1, 0)), 0.1);
  EXPECT_EQ(exact.value()(0, 0), start(0, 0));
}

TEST(LazyRowsOf, ATableSettledWholeCanBeReadByThreads) {
  Parameter table("table", irregular({50, 8}));
  Adam optimizer({&table}, kAdam);
  train(optimizer, table, 0, 40, [](int) {});
  const Tensor expected = table.value();
  std::vector<Tensor> read(4);
  std::vector<std::thread> threads;
  for (Tensor& result : read)
    threads.emplace_back([&table, &result] {
      Tape tape(Tape::inference);
      std::vector<std::int32_t> all(50);
      for (std::int32_t i = 0; i < 50; ++i) all[static_cast<std::size_t>(i)] = i;
      result = embedding(tape.parameter(table), to_ids(all)).value();
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : read) EXPECT_EQ(result, expected);
}

}  // namespace
