#include "tests/test.hpp"

namespace {

Ids list(const std::vector<std::int32_t>& numbers) { return to_ids(numbers); }

TEST(EmbeddingBag, StartsWithTheNumbersOfAnEmbedding) {
  for (const std::optional<std::int32_t> padding :
       {std::optional<std::int32_t>(), std::optional<std::int32_t>(2),
        std::optional<std::int32_t>(-1)}) {
    Random random(123);
    Random same(123);
    const EmbeddingBag bag(6, 3, random, {.padding_idx = padding});
    const Embedding embedding(6, 3, same, {.padding_idx = padding});
    EXPECT_EQ(bag.weight.value(), embedding.weight.value());
    EXPECT_EQ(bag.parameters().front()->name(), "weight");
  }
}

TEST(EmbeddingBag, TakesTheMeanUnlessToldOtherwise) {
  const Tensor table = tensor({3, 2}, {1, 6, 3, 2, 8, 8});
  EmbeddingBag mean(table);
  EmbeddingBag sum(table, {.mode = BagMode::kSum, .include_last_offset = true});
  EmbeddingBag max(table, {.mode = BagMode::kMax, .padding_idx = -1});
  Tape tape;
  EXPECT_EQ(mean.forward(tape, {ids({1, 2}, {0, 1})}).value(), tensor({1, 2}, {2, 4}));
  EXPECT_EQ(sum.forward(tape, {list({0, 1, 2}), list({0, 2, 3})}).value(),
            tensor({2, 2}, {4, 8, 8, 8}));
  EXPECT_EQ(max.forward(tape, {list({0, 1, 2}), list({0})}).value(), tensor({1, 2}, {3, 6}));
}

TEST(EmbeddingBag, WeighsItsRows) {
  EmbeddingBag bag(tensor({2, 2}, {1, 2, 3, 4}), {.mode = BagMode::kSum});
  Parameter weights("weights", tensor({1, 2}, {10, 100}));
  Tape tape;
  const Variable result = bag.forward(
      tape, {.ids = ids({1, 2}, {0, 1}), .per_sample_weights = tape.parameter(weights)});
  EXPECT_EQ(result.value(), tensor({1, 2}, {310, 420}));
  tape.backward(sum(result));
  EXPECT_EQ(weights.gradient().dense(), tensor({1, 2}, {3, 7}));
  EXPECT_EQ(bag.weight.gradient().rows().values(), tensor({2, 2}, {10, 10, 100, 100}));
}

TEST(EmbeddingBag, ChangesTheRowsThatWereLookedUpAndNoOthers) {
  Random random(1);
  EmbeddingBag bag(5, 3, random, {.mode = BagMode::kSum, .padding_idx = 2});
  const Tensor before = bag.weight.value();
  SGD sgd(bag.parameters(), {.learning_rate = 0.5});
  Tape tape;
  tape.backward(sum(bag.forward(tape, {ids({2, 2}, {4, 2, 0, 4})})));
  EXPECT_EQ(bag.weight.gradient().rows().indices(), (std::vector<std::int32_t>{0, 4}));
  sgd.step();
  for (std::size_t row = 0; row < 5; ++row)
    for (std::size_t i = 0; i < 3; ++i) {
      const real step = row == 0 ? real{0.5} : row == 4 ? real{1} : real{0};
      EXPECT_EQ(bag.weight.value()(row, i), before(row, i) - step) << row;
    }
}

TEST(EmbeddingBag, HasADenseGradientOrNoneOnRequest) {
  EmbeddingBag dense(zeros({4, 2}), {.mode = BagMode::kSum, .dense_gradient = true});
  EmbeddingBag frozen(zeros({4, 2}), {.frozen = true});
  Tape tape;
  tape.backward(sum(dense.forward(tape, {ids({1, 2}, {1, 1})})));
  EXPECT_EQ(dense.weight.gradient().dense(), tensor({4, 2}, {0, 0, 2, 2, 0, 0, 0, 0}));
  Tape other;
  EXPECT_FALSE(frozen.forward(other, {ids({1, 1}, {1})}).needs_gradient());
}

TEST(EmbeddingBag, RefusesWhatIsNoTableAndOptionsThatExcludeEachOther) {
  Random random(1);
  EXPECT_THROW(EmbeddingBag(0, 3, random), std::invalid_argument);
  EXPECT_THROW(EmbeddingBag(3, 0, random), std::invalid_argument);
  EXPECT_THROW(EmbeddingBag(zeros({3})), std::invalid_argument);
  for (const std::int32_t padding : {3, -4}) {
    const std::string message =
        concat("EmbeddingBag: padding id ", padding, " is outside the table's 3 rows");
    EXPECT_INVALID(message, EmbeddingBag(3, 2, random, {.padding_idx = padding}));
    EXPECT_INVALID(message, EmbeddingBag(zeros({3, 2}), {.padding_idx = padding}));
  }
  EXPECT_INVALID("EmbeddingBag: scale_grad_by_freq is set with mode max, expected mode sum or mean",
                 EmbeddingBag(3, 2, random, {.mode = BagMode::kMax, .scale_grad_by_freq = true}));
}

#if defined(ROWGRAD_DOUBLE)
TEST(EmbeddingBag, PassesTheGradientCheck) {
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    Random random(1);
    EmbeddingBag bag(6, 3, random, {.mode = mode, .padding_idx = 1});
    const auto result = gradient_check(
        [&](Tape& tape) {
          return bag.forward(tape, {list({1, 3, 3, 5, 1, 0}), list({0, 2, 2})});
        },
        bag.parameters());
    EXPECT_TRUE(result.passed) << result.message();
  }
}
#endif

}  // namespace
