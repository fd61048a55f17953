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
    return bits_of(table, optimizer);
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

TEST(LazyRowsOf, ATapeAreReadByLookupsAndByDenseOps) {
  RowsAndDense<SGD> twins(irregular({6, 4}), kMomentum);
  for (int i = 0; i < 20; ++i) twins.step(gradient({6, 4}, {2, 3}, i));
  const Tensor& expected = twins.dense.value();
  Tape tape(Tape::inference);
  const Variable variable = tape.parameter(*twins.table);
  EXPECT_EQ(variable.shape(), Shape({6, 4}));
  const Tensor looked_up = embedding(variable, ids({6}, {0, 1, 2, 3, 4, 5})).value();
  expect_near(looked_up, expected, kTwentySteps);
  Tensor identity = zeros({6, 6});
  for (std::size_t i = 0; i < 6; ++i) identity(i, i) = 1;
  expect_near(matmul(tape.constant(identity), variable).value(), expected, kTwentySteps);
  expect_near(variable.value(), expected, kTwentySteps);
}

TEST(LazyRowsOf, AFrozenTableAreOwedNothingNew) {
  RowsAndDense<SGD> twins(irregular({6, 4}), kMomentum);
  for (int i = 0; i < 5; ++i) twins.step(gradient({6, 4}, {1}, i));
  twins.table->set_trainable(false);
  for (int i = 0; i < 5; ++i) {
    twins.give(gradient({6, 4}, {2}, i));
    twins.optimizer->step();
  }
  twins.expect_equal(kTwentySteps);
}

TEST(LazyRowsOf, ATableInTwoLayersAreOwedOnce) {
  RowsAndDense<SGD> twins(irregular({8, 3}), kMomentum);
  for (int i = 0; i < 12; ++i) {
    for (Parameter* item : {twins.table.get(), &twins.dense}) {
      item->zero_gradient();
      Tape tape;
      const EmbeddingLookup options{.dense_gradient = item == &twins.dense};
      const Variable first = embedding(tape.parameter(*item), ids({2}, {1, i % 4}), options);
      const Variable second = embedding(tape.parameter(*item), ids({2}, {5, 1}), options);
      tape.backward(sum(first * second));
    }
    EXPECT_TRUE(twins.table->gradient().is_rows());
    twins.step();
  }
  twins.expect_equal(kTwentySteps);
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
  RowsAndDense<SGD> twins(irregular({6, 4}), kMomentum);
  Adam adam({twins.table.get()}, kAdam), dense_adam({&twins.dense}, kAdam);
  for (int i = 0; i < 12; ++i) {
    twins.give(gradient({6, 4}, {1, 2 + i % 3}, i));
    if (i % 4 < 2) {
      twins.step();
    } else {
      adam.step();
      dense_adam.step();
    }
  }
  twins.expect_equal(kTwentySteps);
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
