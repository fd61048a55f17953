// How rows are brought up to date: when, and what readers can rely on.

#include "tests/optim/lazy_rows.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/checkpoints.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/threads.hpp"
#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/optim/adagrad.hpp>
#include <rowgrad/optim/adam.hpp>
#include <rowgrad/optim/rmsprop.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

using testing::bits_of;
using testing::error_of;
using testing::expect_near;
using testing::give;
using testing::gradient;
using testing::ids;
using testing::irregular;
using testing::kAdam;
using testing::kMomentum;
using testing::step;
using testing::train;
using testing::with;
using testing::without;

// A table, up to date, and all that its optimizer keeps.
std::string bits_of(const Parameter& table, const Optimizer& optimizer) {
  Checkpoint all;
  all.put("table", table.value());
  all.put("optimizer", optimizer.state_dict());
  return testing::bits_of(all);
}

template <class Made>
class LazyRowsTest : public ::testing::Test {
 public:
  // Adam with decay in the gradient has no closed form; AdamW, where it is decoupled, has one.
  static typename Made::Options options() {
    return {.learning_rate = 0.01, .weight_decay = std::is_same_v<Made, Adam> ? 0 : 0.01};
  }
};

using Optimizers = ::testing::Types<SGD, Adam, AdamW, RMSprop, Adagrad>;
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

TYPED_TEST(LazyRowsTest, ARunGoesOnFromACheckpointWithTheSameBits) {
  Parameter whole("table", irregular({13, 9}));
  const auto options = TestFixture::options();
  TypeParam whole_optimizer({&whole}, options);
  Parameter stopped("table", irregular({13, 9}));
  auto optimizer = std::make_unique<TypeParam>(std::vector<Parameter*>{&stopped}, options);
  const auto nothing = [](int) {};
  train(whole_optimizer, whole, 0, 390, nothing);
  int from = 0;
  for (const int to : {1, 3, 150, 387}) {
    train(*optimizer, stopped, from, to, nothing);
    const Tensor value = stopped.value();
    const Checkpoint state = optimizer->state_dict();
    optimizer = std::make_unique<TypeParam>(std::vector<Parameter*>{&stopped}, options);
    stopped.assign(value);
    optimizer->load_state_dict(state);
    from = to;
  }
  train(*optimizer, stopped, from, 390, nothing);
  EXPECT_EQ(whole.value(), stopped.value());
  EXPECT_TRUE(bits_of(whole_optimizer.state_dict()) == bits_of(optimizer->state_dict()));
}

TYPED_TEST(LazyRowsTest, AreTheSameForAnyNumberOfThreads) {
  const auto run = [](int threads) {
    const testing::Threads limited(threads);
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

TYPED_TEST(LazyRowsTest, GoBackToAnEarlierStateWhileTheTableIsLent) {
  Parameter table("table", irregular({13, 9}));
  TypeParam optimizer({&table}, TestFixture::options());
  const auto nothing = [](int) {};
  train(optimizer, table, 0, 30, nothing);
  const Tensor value = table.value();
  const Checkpoint state = optimizer.state_dict();
  train(optimizer, table, 30, 60, nothing);
  const Tensor expected = table.value();
  train(optimizer, table, 60, 70, nothing);
  table.assign(value);
  train(optimizer, table, 60, 65, nothing);  // lent again
  optimizer.load_state_dict(state);
  table.assign(value);
  optimizer.load_state_dict(state);
  train(optimizer, table, 30, 60, nothing);
  EXPECT_EQ(table.value(), expected);
}

TYPED_TEST(LazyRowsTest, ComeBackBitForBitOnlyIfTheNumbersAreTheirs) {
  Parameter table("table", irregular({13, 9}));
  TypeParam first({&table}, TestFixture::options());
  train(first, table, 0, 30, [](int) {});
  const Checkpoint state = first.state_dict();
  Parameter other("table", irregular({13, 9}, 5));
  const Tensor before = other.value();
  TypeParam optimizer({&other}, TestFixture::options());
  optimizer.load_state_dict(state);  // of another model: its states are used, its values are not
  EXPECT_EQ(other.value(), before);
}

TYPED_TEST(LazyRowsTest, ComeBackRowByRow) {
  // One row is NaN, another was changed since: neither affects the other rows.
  Parameter whole("table", irregular({13, 9}));
  TypeParam whole_optimizer({&whole}, TestFixture::options());
  Tensor not_numbers = full({1, 9}, NAN);
  const std::vector<std::int32_t> fourth{4}, seventh{7};
  train(whole_optimizer, whole, 0, 30, [](int) {});
  whole.assign_rows(fourth, not_numbers);
  train(whole_optimizer, whole, 30, 35, [](int) {});

  const Tensor value = whole.value();
  Parameter resumed("table", value);
  TypeParam optimizer({&resumed}, TestFixture::options());
  resumed.assign_rows(seventh, irregular({1, 9}, 3));
  optimizer.load_state_dict(whole_optimizer.state_dict());
  EXPECT_EQ(resumed.rows(seventh), irregular({1, 9}, 3));
  whole.assign_rows(seventh, irregular({1, 9}, 3));

  train(whole_optimizer, whole, 35, 50, [](int) {});
  train(optimizer, resumed, 35, 50, [](int) {});
  EXPECT_TRUE(bits_of(resumed, optimizer) == bits_of(whole, whole_optimizer));
}

// A gradient that is NaN poisons entry 3 of two rows and of their states: from then on, row 0 is
// only owed steps, and row 4 is looked up again and again.
template <class Made>
void expect_to_resume_with_a_row_that_is_no_number(const typename Made::Options& options) {
  Tensor poison = irregular({2, 9});
  poison(0, 3) = poison(1, 3) = NAN;
  const auto is_poisoned = [](std::size_t row, std::size_t i) {
    return (row == 0 || row == 4) && i == 3;
  };
  for (const int until : {30, 31, 33, 150}) {
    SCOPED_TRACE(until);
    Parameter whole("table", irregular({13, 9}));
    Made whole_optimizer({&whole}, options);
    train(whole_optimizer, whole, 0, 30, [](int) {});
    whole_optimizer.zero_grad();
    whole.add_gradient(RowGradient({13, 9}, {0, 4}, poison));
    whole_optimizer.step();
    train(whole_optimizer, whole, 30, until, [](int) {});

    const Tensor value = whole.copy();
    const Checkpoint state = whole_optimizer.state_dict();
    ASSERT_TRUE(state.contains("table.lazy.values"));
    std::size_t tables = 0;
    for (const std::string& name : state.names()) {
      const auto* tensor = std::get_if<Tensor>(&state.at(name));
      if (tensor == nullptr || tensor->shape() != value.shape()) continue;
      ++tables;
      for (std::size_t row = 0; row < 13; ++row)
        for (std::size_t i = 0; i < 9; ++i)
          ASSERT_EQ(std::isnan((*tensor)(row, i)), is_poisoned(row, i)) << name << " at " << row;
    }
    ASSERT_GE(tables, 2U);  // the table and a state of it

    Parameter resumed("table", value);
    Made optimizer({&resumed}, options);
    optimizer.load_state_dict(state);
    EXPECT_TRUE(bits_of(optimizer.state_dict()) == bits_of(state));
    train(whole_optimizer, whole, until, until + 40, [](int) {});
    train(optimizer, resumed, until, until + 40, [](int) {});
    EXPECT_TRUE(bits_of(resumed, optimizer) == bits_of(whole, whole_optimizer));
  }
}

TEST(LazyRowsOf, ATableWithNaNComeBackBitForBit) {
  expect_to_resume_with_a_row_that_is_no_number<SGD>(kMomentum);
  expect_to_resume_with_a_row_that_is_no_number<Adam>(kAdam);
  expect_to_resume_with_a_row_that_is_no_number<AdamW>({});
  expect_to_resume_with_a_row_that_is_no_number<RMSprop>({.momentum = 0.9});
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
  expect_near(looked_up, expected);
  const Variable one_by_one = tape.constant([] {
    Tensor identity = zeros({6, 6});
    for (std::size_t i = 0; i < 6; ++i) identity(i, i) = 1;
    return identity;
  }());
  expect_near(matmul(one_by_one, variable).value(), expected);
  expect_near(variable.value(), expected);
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
  expect_near(table.value(), dense.value());
}

TEST(LazyRowsOf, AFrozenTableAreOwedNothingNew) {
  const Tensor start = irregular({6, 4});
  const Tensor expected = dense_steps<SGD>(start, kMomentum, 5, {1});
  Parameter table("table", start);
  SGD optimizer({&table}, kMomentum);
  for (int i = 0; i < 5; ++i) step(optimizer, table, {1}, i);
  table.set_trainable(false);
  for (int i = 0; i < 5; ++i) step(optimizer, table, {2}, i);
  expect_near(table.value(), expected);
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
  expect_near(table.value(), dense.value());
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

TEST(LazyRowsOf, AStateThatDoesNotFitAreRefusedBeforeAnythingChanges) {
  Parameter table("table", irregular({4, 2}));
  SGD optimizer({&table}, kMomentum);
  for (int i = 0; i < 3; ++i) step(optimizer, table, {i}, i);
  const Checkpoint good = optimizer.state_dict();
  const auto error = [](Optimizer& loading, const Checkpoint& state) {
    return error_of<std::invalid_argument>([&] { loading.load_state_dict(state); });
  };
  const auto message = [&](const std::string& name, auto value) {
    return error(optimizer, with(good, name, std::move(value)));
  };
  using Integers = std::vector<std::int64_t>;
  ASSERT_EQ(good.integers("table.lazy.steps"), Integers{3});

  const std::string wrong_at = "SGD::load_state_dict: 'table.lazy.at' has ";
  EXPECT_EQ(message("table.lazy.at", Integers(4, 4)),
            wrong_at + "4, expected a number from 0 to 3");
  EXPECT_EQ(message("table.lazy.at", Integers{0, 1, 2, -1}),
            wrong_at + "-1, expected a number from 0 to 3");
  EXPECT_EQ(message("table.lazy.at", Integers(3, 0)), wrong_at + "3 numbers, expected 4");
  EXPECT_EQ(message("table.lazy.at", Integers(5, 0)), wrong_at + "5 numbers, expected 4");
  EXPECT_EQ(message("table.lazy.at", full({4}, 0.5)),
            "Checkpoint: \"table.lazy.at\" is not an array of whole numbers");
  EXPECT_EQ(message("table.lazy.values", zeros({4, 3})),
            "Checkpoint: \"table.lazy.values\" has shape [4, 3], expected [4, 2]");
  EXPECT_EQ(message("table.lazy.rules", full({1, 3}, 1)),
            "Checkpoint: \"table.lazy.rules\" has shape [1, 3], expected [1, 6]");
  EXPECT_EQ(message("table.lazy.rules", full({1, 6}, NAN)),
            "SGD::load_state_dict: 'table.lazy.rules' has nan");
  // Otherwise, rows would be replayed that often.
  const std::string wrong_steps = "SGD::load_state_dict: 'table.lazy.steps' has ";
  EXPECT_EQ(message("table.lazy.steps", Integers{16777215}),
            wrong_steps + "16777215, expected a number from 1 to 3");
  EXPECT_EQ(message("table.lazy.steps", Integers{0}),
            wrong_steps + "0, expected a number from 1 to 3");
  EXPECT_EQ(error(optimizer, with(with(good, "table.lazy.steps", Integers{2, 2}),
                                  "table.lazy.rules", full({2, 6}, 0.5))),
            wrong_steps + "2, expected a number from 1 to 1");
  EXPECT_EQ(message("table.lazy.steps", Integers{2, 1}),
            "Checkpoint: \"table.lazy.rules\" has shape [1, 6], expected [2, 6]");
  EXPECT_EQ(message("table.step", -1),
            "Checkpoint: \"table.step\" is -1, expected a number not below 0");
  EXPECT_EQ(message("table.step", 2), wrong_steps + "3, expected a number from 1 to 2");
  EXPECT_EQ(message("other.lazy.at", Integers(4, 0)),
            "SGD::load_state_dict: there is no parameter for \"other.lazy.at\"");
  for (const std::string name :
       {"table.lazy.values", "table.lazy.at", "table.lazy.steps", "table.lazy.rules", "table.step"})
    EXPECT_EQ(error(optimizer, without(good, name)),
              concat("Checkpoint: \"", name, "\" is missing"));
  EXPECT_TRUE(bits_of(optimizer.state_dict()) == bits_of(good));

  Parameter bias("table", zeros({4}));
  SGD other({&bias}, kMomentum);
  EXPECT_EQ(error(other, without(good, "table.momentum")),
            "SGD::load_state_dict: 'table' is no table, but its state has lazy rows");
  EXPECT_TRUE(other.state_dict().empty());
}

}  // namespace
}  // namespace rowgrad
