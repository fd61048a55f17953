// How rows are brought up to date: when, at what cost, and what readers can rely on.

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

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

using testing::error_of;
using testing::ids;
using testing::irregular;

const SgdOptions kMomentum{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};
const AdamOptions kAdam{.learning_rate = 0.01};

RowGradient gradient(const Shape& table, std::vector<std::int32_t> rows, int seed = 0) {
  const std::size_t size = rows.size();
  return RowGradient(table, std::move(rows), irregular({size, table[1]}, seed));
}

void step(Optimizer& optimizer, Parameter& table, std::vector<std::int32_t> rows, int seed = 0) {
  optimizer.zero_grad();
  table.add_gradient(gradient(table.shape(), std::move(rows), seed));
  optimizer.step();
}

// The same gradient twice: that of the rows, and that of the whole table.
void give(Parameter& table, Parameter& dense, const RowGradient& rows) {
  table.zero_gradient();
  table.add_gradient(rows);
  dense.zero_gradient();
  dense.add_gradient(rows.to_dense());
}

// A few hundred steps, each of two of the rows; row 0 never, row 1 at first only.
template <class Look>
void train(Optimizer& optimizer, Parameter& table, int from, int to, const Look& look) {
  const auto rows = static_cast<std::int32_t>(table.shape()[0]);
  for (int i = from; i < to; ++i) {
    const std::int32_t row = 2 + i % (rows - 3);
    step(optimizer, table,
         i < 5 ? std::vector<std::int32_t>{1, row} : std::vector<std::int32_t>{row, rows - 1}, i);
    look(i);
  }
}

template <class Made>
class LateRows : public ::testing::Test {
 public:
  // Adam with decay in the gradient has no closed form, AdamW with decay beside it has.
  static typename Made::Options options() {
    return {.learning_rate = 0.01, .weight_decay = std::is_same_v<Made, Adam> ? 0 : 0.01};
  }
};

using Optimizers = ::testing::Types<SGD, Adam, AdamW, RMSprop, Adagrad>;
TYPED_TEST_SUITE(LateRows, Optimizers);

TYPED_TEST(LateRows, TheBitsOfARunDoNotDependOnWhoLooked) {
  const auto run = [](bool looking) {
    Parameter table("table", irregular({13, 9}));
    TypeParam optimizer({&table}, TestFixture::options());
    train(optimizer, table, 0, 500, [&](int i) {
      if (!looking) return;
      table.rows(std::vector<std::int32_t>{0, 1, 1, 5});
      if (i % 97 == 0) table.value();
      if (i % 131 == 0) optimizer.state();
    });
    table.numbers();  // settles the states too
    auto all = optimizer.state();
    all["table"] = table.value();
    return all;
  };
  EXPECT_EQ(run(false), run(true));
}

TYPED_TEST(LateRows, ARunGoesOnFromACheckpointWithTheSameBits) {
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
    const auto state = optimizer->state();
    optimizer = std::make_unique<TypeParam>(std::vector<Parameter*>{&stopped}, options);
    stopped.assign(value);
    optimizer->load_state(state);
    from = to;
  }
  train(*optimizer, stopped, from, 390, nothing);
  EXPECT_EQ(whole.value(), stopped.value());
  EXPECT_EQ(whole_optimizer.state(), optimizer->state());
}

TYPED_TEST(LateRows, AreTheSameForAnyNumberOfThreads) {
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

TYPED_TEST(LateRows, KeepTheirValueWhenTheOptimizerGoes) {
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

TYPED_TEST(LateRows, GoBackToAnEarlierStateWhileTheTableIsLent) {
  Parameter table("table", irregular({13, 9}));
  TypeParam optimizer({&table}, TestFixture::options());
  const auto nothing = [](int) {};
  train(optimizer, table, 0, 30, nothing);
  const Tensor value = table.value();
  const auto state = optimizer.state();
  train(optimizer, table, 30, 60, nothing);
  const Tensor expected = table.value();
  train(optimizer, table, 60, 70, nothing);
  table.assign(value);
  train(optimizer, table, 60, 65, nothing);  // lent again
  optimizer.load_state(state);
  table.assign(value);
  optimizer.load_state(state);
  train(optimizer, table, 30, 60, nothing);
  EXPECT_EQ(table.value(), expected);
}

TYPED_TEST(LateRows, ComeBackBitForBitOnlyIfTheNumbersAreTheirs) {
  Parameter table("table", irregular({13, 9}));
  TypeParam first({&table}, TestFixture::options());
  train(first, table, 0, 30, [](int) {});
  const auto state = first.state();
  Parameter other("table", irregular({13, 9}, 5));
  const Tensor before = other.value();
  TypeParam optimizer({&other}, TestFixture::options());
  optimizer.load_state(state);  // another model's: its states are taken, its numbers are not
  EXPECT_EQ(other.value(), before);
}

TYPED_TEST(LateRows, ComeBackRowByRow) {
  // One row is no number, another was changed since: neither is the business of the others.
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
  optimizer.load_state(whole_optimizer.state());
  EXPECT_EQ(resumed.rows(seventh), irregular({1, 9}, 3));
  whole.assign_rows(seventh, irregular({1, 9}, 3));

  train(whole_optimizer, whole, 35, 50, [](int) {});
  train(optimizer, resumed, 35, 50, [](int) {});
  const auto expect_same = [](const Tensor& a, const Tensor& b, const char* what) {
    ASSERT_EQ(a.shape(), b.shape());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(real)), 0) << what;
  };
  expect_same(resumed.value(), whole.value(), "value");
  const auto state = optimizer.state();
  ASSERT_EQ(state.size(), whole_optimizer.state().size());
  for (const auto& [name, tensor] : whole_optimizer.state())
    expect_same(state.at(name), tensor, name.c_str());
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

void expect_near(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  // Some twenty steps of a few roundings each, of numbers of about one.
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a.data()[i], b.data()[i], 200 * testing::kEpsilon) << i;
}

TEST(LateRowsOf, ATapeAreReadByLookupsAndByDenseOps) {
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

TEST(LateRowsOf, ATableInTwoLayersAreOwedOnce) {
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

TEST(LateRowsOf, AFrozenTableAreOwedNothingNew) {
  const Tensor start = irregular({6, 4});
  const Tensor expected = dense_steps<SGD>(start, kMomentum, 5, {1});
  Parameter table("table", start);
  SGD optimizer({&table}, kMomentum);
  for (int i = 0; i < 5; ++i) step(optimizer, table, {1}, i);
  table.set_trainable(false);
  for (int i = 0; i < 5; ++i) step(optimizer, table, {2}, i);
  expect_near(table.value(), expected);
}

TEST(LateRowsOf, AnEmptyRowGradientAreOwedAStepAllTheSame) {
  const Tensor start = irregular({4, 3});
  Parameter table("table", start);
  SGD optimizer({&table}, {.learning_rate = 0.5, .weight_decay = 0.5});
  step(optimizer, table, {});
  for (std::size_t i = 0; i < start.size(); ++i)
    EXPECT_EQ(table.value().data()[i], start.data()[i] * static_cast<real>(0.75));
}

TEST(LateRowsOf, TwoOptimizersInTurnAreThoseOfBoth) {
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

TEST(LateRowsOf, OptionsThatChangeAreOwedAsTheyWere) {
  const Tensor start = irregular({6, 4});
  Parameter table("table", start);
  Parameter dense("dense", start);
  SGD optimizer({&table}, SgdOptions{});
  SGD dense_optimizer({&dense}, SgdOptions{});
  const std::vector<SgdOptions> phases{
      {.learning_rate = 0.1},
      {.learning_rate = 0.1, .momentum = 0.9},
      {.learning_rate = 0.2, .momentum = 0.9, .weight_decay = 0.1},
      {.learning_rate = 0.1},
      {.learning_rate = 0.1, .weight_decay = 0.1},
      {.learning_rate = 0.1, .momentum = 0.5, .dampening = 0.5, .weight_decay = 0.1}};
  for (int i = 0; i < 24; ++i) {
    const SgdOptions& options = phases[static_cast<std::size_t>(i / 4)];
    optimizer.set_options(options);
    dense_optimizer.set_options(options);
    const RowGradient rows = gradient({6, 4}, {i % 2, 3}, i);
    give(table, dense, rows);
    optimizer.step();
    dense_optimizer.step();
  }
  expect_near(table.value(), dense.value());
}

TEST(LateRowsOf, OptionsOfAdamThatChangeWhileRowsRestAreHeeded) {
  const Tensor start = irregular({6, 4});
  const std::vector<AdamOptions> phases{{.learning_rate = 0.1},
                                        {.learning_rate = 0.1, .amsgrad = true},
                                        {.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.9999},
                                        {.learning_rate = 0.1, .epsilon = 1e-12}};
  Parameter table("table", start);
  Parameter dense("dense", start);
  Adam optimizer({&table});
  Adam dense_optimizer({&dense});
  int step = 0;
  for (const AdamOptions& options : phases) {
    optimizer.set_options(options);
    dense_optimizer.set_options(options);
    for (int i = 0; i < 1001; ++i, ++step) {
      RowGradient rows = gradient({6, 4}, i == 0 ? std::vector{1, 2} : std::vector{2}, step);
      give(table, dense, rows);
      optimizer.step();
      dense_optimizer.step();
    }
  }
  const double tolerance = sizeof(real) == 8 ? 1e-11 : 1e-3;
  const Tensor late = table.rows(std::vector<std::int32_t>{0, 1, 2});
  for (std::size_t i = 0; i < late.size(); ++i)
    EXPECT_NEAR(late.data()[i], dense.value().data()[i], tolerance) << i;
}

// A gradient whose square is infinite stops a row for good under the dense optimizer.
template <class Made>
void expect_the_same_after_overflow(const typename Made::Options& options) {
  Parameter table("table", irregular({4, 5}));
  Parameter dense("dense", irregular({4, 5}));
  Made optimizer({&table}, options);
  Made dense_optimizer({&dense}, options);
  const auto huge = static_cast<real>(sizeof(real) == 8 ? 1e160 : 1e22);
  for (int i = 0; i < 900; ++i) {
    give(table, dense,
         i == 3 ? RowGradient({4, 5}, {1}, full({1, 5}, huge)) : gradient({4, 5}, {2}, i));
    optimizer.step();
    dense_optimizer.step();
  }
  const Tensor row = table.rows(std::vector<std::int32_t>{1});
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(std::isfinite(row(0, i)));
    EXPECT_NEAR(row(0, i), dense.value()(1, i), 900 * testing::kEpsilon) << i;
  }
}

TEST(LateRowsOf, AnOverflowAreFiniteWhereTheDenseOnesAre) {
  expect_the_same_after_overflow<Adam>({});
  expect_the_same_after_overflow<AdamW>({});
  expect_the_same_after_overflow<RMSprop>({});
  // Momentum above 1 diverges where there was a gradient; a row of zeros stays one.
  Parameter table("table", zeros({3, 2}));
  SGD optimizer({&table}, {.learning_rate = 1, .momentum = 2});
  for (int i = 0; i < 3000; ++i) step(optimizer, table, {1}, i);
  EXPECT_EQ(table.rows(std::vector<std::int32_t>{0}), zeros({1, 2}));
}

// Row 0 gets a gradient in the first step, the first without amsgrad and the last; 160 steps each.
real after_phases_of_amsgrad(const std::vector<bool>& phases) {
  Parameter table("table", full({2, 1}, 1));
  AdamOptions options{.learning_rate = 0.1, .beta1 = 0.5};
  Adam optimizer({&table});
  const auto step_with = [&](const RowGradient& rows) {
    optimizer.zero_grad();
    table.add_gradient(rows);
    optimizer.step();
  };
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    options.amsgrad = phases[phase];
    optimizer.set_options(options);
    for (int i = 0; i < 160; ++i)
      step_with(i == 0 && (phase == 0 || !options.amsgrad)
                    ? RowGradient({2, 1}, {0}, full({1, 1}, 1 + 2 * static_cast<real>(phase)))
                    : RowGradient({2, 1}, {1}, full({1, 1}, 1)));
  }
  step_with(RowGradient({2, 1}, {0}, full({1, 1}, static_cast<real>(0.1))));
  return table.value()(0, 0);
}

TEST(LateRowsOf, AmsgradSwitchedOnWhileARowRestsAreHeededAtOnce) {
  // The numbers are those of PyTorch's formula, step by step, in double.
  EXPECT_NEAR(after_phases_of_amsgrad({false, true}), 0.70942584, 1e-5);
  EXPECT_NEAR(after_phases_of_amsgrad({true, false, true}), -0.4041264, 1e-5);
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

TEST(LateRowsOf, ATableSettledWholeCanBeReadByThreads) {
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

// --- Work ---------------------------------------------------------------------------------------

template <class Made>
std::uint64_t work_of_steps(std::size_t rows, const typename Made::Options& options) {
  Parameter table("table", zeros({rows, 4}));
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
  for (const std::size_t rows : {10'000, 100'000, 1'000'000})
    EXPECT_EQ(work_of_steps<Made>(rows, options), work) << rows;
}

TEST(LateRowsOf, AStepCostsTheRowsLookedUpWhateverTheTable) {
  // Three rows looked up and two updated in each of 50 steps; nothing is read in the first.
  expect_work_of_the_rows<SGD>(kMomentum, 50 * 5);
  expect_work_of_the_rows<RMSprop>({}, 50 * 5);
  expect_work_of_the_rows<Adagrad>({}, 50 * 5);
  // Rows that come back replay what they missed: at most 50 steps each time.
  expect_work_of_the_rows<Adam>(kAdam, 50 * 5 + 50 * 2 * 50);
  expect_work_of_the_rows<AdamW>({}, 50 * 5 + 50 * 2 * 50);
}

TEST(LateRowsOf, ALongRunWithAScheduleAreSettledNowAndThen) {
  // No two steps alike: what has been away for thousands of steps is settled.
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

TEST(LateRowsOf, AdamReplayUntilTheirMeanHasFadedAndNoLonger) {
  Parameter table("table", irregular({1000, 4}));
  Adam optimizer({&table}, kAdam);
  step(optimizer, table, {1, 2});
  for (int i = 0; i < 2000; ++i) step(optimizer, table, {2}, i);
  const std::uint64_t before = optimizer.rows_visited();
  table.value();
  const std::uint64_t replayed = optimizer.rows_visited() - before - 1000;
  EXPECT_GT(replayed, 50U);
  EXPECT_LT(replayed, 600U);  // of the 2,000 steps that row 1 missed; the other rows never moved
}

template <class Made>
void expect_exact_after_long_absence(const typename Made::Options& options) {
  const Tensor start = irregular({3, 4});
  Parameter table("table", start);
  Parameter dense("dense", start);
  Made optimizer({&table}, options);
  Made dense_optimizer({&dense}, options);
  give(table, dense, gradient({3, 4}, {0, 1, 2}));
  optimizer.step();
  dense_optimizer.step();
  const RowGradient only_two = gradient({3, 4}, {2});
  give(table, dense, only_two);
  for (int i = 0; i < 100'000; ++i) {
    if (i % 1000 == 0) {  // the rate changes meanwhile
      const double rate = options.learning_rate * (1 + 0.5 * (i / 1000 % 3));
      optimizer.set_learning_rate(rate);
      dense_optimizer.set_learning_rate(rate);
    }
    optimizer.step();
    dense_optimizer.step();
  }
  const std::uint64_t before = optimizer.rows_visited();
  const Tensor rows = table.rows(std::vector<std::int32_t>{0, 1});
  EXPECT_LT(optimizer.rows_visited() - before, 2000U);
  // 100,000 roundings: in float each may take half a unit of the last place.
  const double tolerance = sizeof(real) == 8 ? 1e-9 : 1e5 * testing::kEpsilon / 2;
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_NEAR(rows.data()[i], dense.value().data()[i], tolerance) << i;
}

TEST(LateRowsOf, ARestingRowOfAdamAreExactToTheLastPlace) {
  // A learning rate of 1 is the largest that resting allows for; above, everything is replayed.
  for (const AdamOptions& options :
       {AdamOptions{.learning_rate = 1}, AdamOptions{.learning_rate = 1, .amsgrad = true},
        AdamOptions{.learning_rate = 1e9}}) {
    const Tensor start = irregular({3, 9});
    Parameter table("table", start);
    Parameter dense("dense", start);
    Adam optimizer({&table}, options);
    Adam dense_optimizer({&dense}, options);
    for (int i = 0; i < 600; ++i) {
      const RowGradient rows = gradient({3, 9}, i < 3 ? std::vector{0, 1} : std::vector{1}, i);
      give(table, dense, rows);
      optimizer.step();
      dense_optimizer.step();
    }
    const Tensor row = table.rows(std::vector<std::int32_t>{0});
    // A few dozen steps of up to the rate, each rounded; what rests is within half a unit of w.
    for (std::size_t i = 0; i < 9; ++i)
      EXPECT_NEAR(row(0, i), dense.value()(0, i), 20 * testing::kEpsilon * options.learning_rate)
          << i;
  }
}

TEST(LateRowsOf, ARowAwayFor100000StepsAreThoseOfTheDenseOptimizer) {
  expect_exact_after_long_absence<SGD>(
      {.learning_rate = 1e-3, .momentum = 0.9, .weight_decay = 1e-3});
  expect_exact_after_long_absence<SGD>(
      {.learning_rate = 1e-4, .momentum = 0.999, .nesterov = true, .weight_decay = 1e-2});
  expect_exact_after_long_absence<RMSprop>({.learning_rate = 1e-3, .momentum = 0.9});
  expect_exact_after_long_absence<AdamW>({});
}

TEST(LateRowsOf, AHistoryThatGrowsTooLongIsSettled) {
  // The rate changes every step, so that no two steps are alike.
  const Tensor start = irregular({4, 3});
  Parameter table("table", start);
  Parameter dense("dense", start);
  SGD optimizer({&table}, kMomentum);
  SGD dense_optimizer({&dense}, kMomentum);
  give(table, dense, gradient({4, 3}, {2}));
  for (int i = 0; i < 9000; ++i) {
    const double rate = 1e-3 * (1 + i % 2) + 1e-8 * i;
    optimizer.set_learning_rate(rate);
    dense_optimizer.set_learning_rate(rate);
    optimizer.step();
    dense_optimizer.step();
  }
  EXPECT_LT(optimizer.state().at("late.history.table").shape()[0], 4098U);
  const double tolerance = sizeof(real) == 8 ? 1e-10 : 9000 * testing::kEpsilon;
  for (std::size_t i = 0; i < start.size(); ++i)
    EXPECT_NEAR(table.value().data()[i], dense.value().data()[i], tolerance) << i;
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
  EXPECT_LT(whole.optimizer->state().at("late.history.table").shape()[0], 4096U);

  LongRun<Made> stopped;  // looked at now and then, and resumed while it settles
  int from = 0;
  for (const int to : {2100, 3001, 4095, 4096, 5000, kSteps}) {
    stopped.run(from, to);
    const Tensor value = stopped.table.value();
    const auto state = stopped.optimizer->state();
    stopped.optimizer = std::make_unique<Made>(std::vector<Parameter*>{&stopped.table},
                                               stopped.optimizer->options());
    stopped.table.assign(value);
    stopped.optimizer->load_state(state);
    from = to;
  }
  EXPECT_EQ(stopped.table.value(), whole.table.value());
  EXPECT_EQ(stopped.optimizer->state(), whole.optimizer->state());

  dense.run(0, kSteps, true);
  const double tolerance = sizeof(real) == 8 ? 1e-10 : kSteps * testing::kEpsilon;
  for (std::size_t i = 0; i < dense.table.size(); ++i)
    ASSERT_NEAR(whole.table.value().data()[i], dense.table.value().data()[i], tolerance) << i;
}

TEST(LateRowsOf, ALongRunAreSettledAFewAtATime) {
  // Two rows that are looked up, and one of 1,500 in 2,048 steps; replays are counted too.
  expect_even_work<SGD>(2 + 1);
  expect_even_work<Adam>(4 * 1000);
}

TEST(LateRowsOf, AStateThatDoesNotFitAreRefusedBeforeAnythingChanges) {
  Parameter table("table", irregular({4, 2}));
  SGD optimizer({&table}, kMomentum);
  for (int i = 0; i < 3; ++i) step(optimizer, table, {i}, i);
  const auto good = optimizer.state();
  const auto message = [&](const std::string& name, const Tensor& tensor) {
    auto changed = good;
    changed[name] = tensor;
    return error_of<std::invalid_argument>([&] { optimizer.load_state(changed); });
  };
  ASSERT_TRUE(good.contains("late.at.table"));
  EXPECT_NE(message("late.at.table", full({4}, 4)).find("expected a whole number from 0 to 3"),
            std::string::npos);
  EXPECT_NE(message("late.at.table", full({4}, 0.5)).find("has 0.5"), std::string::npos);
  EXPECT_NE(message("late.at.table", full({3}, 0)).find("has shape [3], expected [4]"),
            std::string::npos);
  EXPECT_NE(message("late.history.table", full({1, 3}, 1)).find("expected [runs, 7]"),
            std::string::npos);
  // Rows would be replayed that often.
  Tensor long_history = good.at("late.history.table");
  long_history(0, 0) = 16777215;
  EXPECT_NE(message("late.history.table", long_history).find("more steps than the parameter's 3"),
            std::string::npos);
  EXPECT_NE(message("step.table", full({2}, -1)).find("'step.table' has -1"), std::string::npos);
  EXPECT_NE(message("late.at.other", full({4}, 0)).find("no parameter for \"late.at.other\""),
            std::string::npos);
  auto partial = good;
  partial.erase("late.history.table");
  EXPECT_NE(
      error_of<std::invalid_argument>([&] { optimizer.load_state(partial); }).find("is missing"),
      std::string::npos);
  EXPECT_NE(message("late.history.table", full({1, 7}, NAN)).find("has nan"), std::string::npos);
  partial = good;
  partial.erase("step.table");
  EXPECT_THROW(optimizer.load_state(partial), std::invalid_argument);
  EXPECT_EQ(optimizer.state(), good);
}

}  // namespace
}  // namespace rowgrad
