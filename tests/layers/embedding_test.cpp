#include "tests/test.hpp"

namespace {

// The generator's float arithmetic against PyTorch's.
constexpr double kRandomTolerance = 2e-6;

// --- What both layers of a table promise ---------------------------------------------------------

template <class Made>
class TableLayers : public ::testing::Test {
 public:
  static constexpr bool kBags = std::is_same_v<Made, EmbeddingBag>;
  static constexpr const char* kName = kBags ? "EmbeddingBag" : "Embedding";

  static auto options() {
    std::conditional_t<kBags, EmbeddingBagOptions, EmbeddingOptions> options;
    if constexpr (kBags) options.mode = BagMode::kSum;
    return options;
  }

  // The rows, or the sums of pairs of them.
  static Variable look_up(Made& layer, Tape& tape, const std::vector<std::int32_t>& numbers) {
    if constexpr (kBags)
      return layer.forward(tape, {ids({numbers.size() / 2, 2}, numbers)});
    else
      return layer.forward(tape, to_ids(numbers));
  }
};
using BothLayers = ::testing::Types<Embedding, EmbeddingBag>;
TYPED_TEST_SUITE(TableLayers, BothLayers);

using Padding = std::optional<std::int32_t>;

TYPED_TEST(TableLayers, StartWithNormalNumbersAndZerosForPadding) {
  for (const double deviation : {1.0, 0.5, 0.0})
    for (const Padding padding : {Padding(), Padding(0), Padding(2), Padding(-1)}) {
      Random random(123), same(123);
      const TypeParam layer(6, 3, random, {.deviation = deviation, .padding_idx = padding});
      Tensor expected = deviation == 0 ? zeros({6, 3}) : same.normal({6, 3}, 0, deviation);
      if (padding) std::fill_n(expected.data() + (*padding + 6) % 6 * 3, 3, real{0});
      EXPECT_EQ(layer.weight.value(), expected);
      EXPECT_EQ(layer.parameters().front()->name(), "weight");
      EXPECT_EQ(random.bits(), same.bits());  // zeros have drawn nothing
    }
}

TYPED_TEST(TableLayers, TrainTheRowsThatWereLookedUpAndNoOthers) {
  struct Case {
    Padding padding;
    std::vector<real> times;  // that each row gets the gradient 1
  };
  for (const auto& [padding, times] : std::vector<Case>{{{}, {1, 0, 1, 0, 2}},
                                                        {2, {1, 0, 0, 0, 2}},
                                                        {-3, {1, 0, 0, 0, 2}},
                                                        {-1, {1, 0, 1, 0, 0}},
                                                        {-5, {0, 0, 1, 0, 2}}}) {
    Random random(1);
    auto options = TestFixture::options();
    options.padding_idx = padding;
    TypeParam layer(5, 3, random, options);
    const Tensor before = layer.weight.value();
    SGD sgd(layer.parameters(), {.learning_rate = 0.5});
    Tape tape;
    tape.backward(sum(TestFixture::look_up(layer, tape, {4, 2, 0, 4})));
    const RowGradient rows = layer.weight.gradient().rows();
    sgd.step();
    std::vector<std::int32_t> trained;
    for (std::size_t row = 0; row < 5; ++row) {
      if (times[row] > 0) trained.push_back(static_cast<std::int32_t>(row));
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(rows.to_dense()(row, i), times[row]) << row;
        EXPECT_EQ(layer.weight.value()(row, i), before(row, i) - times[row] / 2) << row;
      }
    }
    EXPECT_EQ(rows.indices(), trained);
  }
}

TYPED_TEST(TableLayers, TakeATableAsItIsAndTrainItDenselyOrNotAtAll) {
  const Tensor table = counting({4, 2});
  auto options = TestFixture::options();
  options.padding_idx = 1;
  options.dense_gradient = true;
  TypeParam dense(table, options);
  options.frozen = true;
  TypeParam frozen(table, options);
  Tape tape, other;
  EXPECT_FALSE(TestFixture::look_up(frozen, other, {1, 2}).needs_gradient());
  tape.backward(sum(TestFixture::look_up(dense, tape, {2, 2})));
  EXPECT_EQ(dense.weight.gradient().dense(), tensor({4, 2}, {0, 0, 0, 0, 2, 2, 0, 0}));
  EXPECT_EQ(dense.weight.value(), table);
  EXPECT_EQ(frozen.weight.value(), table);
}

TYPED_TEST(TableLayers, RefuseWhatIsNoTableAndPaddingOutsideIt) {
  Random random(1);
  EXPECT_THROW(TypeParam(0, 3, random), std::invalid_argument);
  EXPECT_THROW(TypeParam(3, 0, random), std::invalid_argument);
  EXPECT_THROW(TypeParam(zeros({3})), std::invalid_argument);
  for (const std::int32_t padding : {3, -4}) {
    const std::string message =
        concat(TestFixture::kName, ": padding id ", padding, " is outside the table's 3 rows");
    EXPECT_INVALID(message, TypeParam(3, 2, random, {.padding_idx = padding}));
    EXPECT_INVALID(message, TypeParam(zeros({3, 2}), {.padding_idx = padding}));
  }
  for (const double deviation : {-1.0, std::nan(""), HUGE_VAL})
    EXPECT_INVALID(concat(TestFixture::kName, ": deviation is ", deviation,
                          ", expected a finite number not below 0"),
                   TypeParam(3, 4, random, {.deviation = deviation}));
}

// --- Embedding -----------------------------------------------------------------------------------

TEST(Embedding, StartsWithTheNumbersThatTextbooksPrint) {
  Random random(123);
  const Embedding embedding(6, 3, random);
  const auto file = golden("torch_random.json");
  expect_near(embedding.weight.value(), tensor_from(file["Embedding(6, 3) under seed 123"]),
              kRandomTolerance);
  EXPECT_NEAR(embedding.weight.value()(0, 0), 0.3374, 5e-5);
  EXPECT_NEAR(embedding.weight.value()(5, 2), -1.4096, 5e-5);
}

TEST(Embedding, LayersMadeOneAfterAnotherStartAsInPyTorch) {
  Random random(123);
  const Embedding token(10, 4, random);
  const PositionalEmbedding position(4, 4, random);
  Linear head(4, 10, random);
  const auto file = golden("torch_random.json");
  const auto& expected =
      file["Embedding(10, 4), Embedding(4, 4), Linear(4 -> 10) made in this order under seed 123"];
  const auto check = [&](const Parameter& parameter, const char* name) {
    expect_near(parameter.value(), tensor_from(expected[name]), kRandomTolerance, name);
  };
  check(token.weight, "token");
  check(position.weight, "position");
  check(head.weight, "head.weight");
  check(*head.bias, "head.bias");
}

TEST(Embedding, TakesOneId) {
  Random random(1);
  Embedding embedding(5, 3, random);
  Tape tape;
  EXPECT_EQ(embedding.forward(tape, 4).shape(), (Shape{3}));
  EXPECT_EQ(embedding.forward(tape, 4).value()(2), embedding.weight.value()(4, 2));
  EXPECT_THROW(embedding.forward(tape, -1), std::invalid_argument);
  EXPECT_INVALID("embedding: id 5 at [0, 1] is outside the table's 5 rows",
                 embedding.forward(tape, ids({1, 2}, {2, 5})));
}

TEST(Embedding, ScalesItsOutputBySqrtWidth) {
  Random random(1);
  Embedding embedding(10, 64, random, {.scale_by_sqrt_width = true});
  Tape tape;
  Ids all = Ids::from_shape({4, 3});
  for (std::size_t i = 0; i < all.size(); ++i) all.data()[i] = static_cast<std::int32_t>(i % 10);
  const Variable output = embedding.forward(tape, all);
  EXPECT_EQ(output.shape(), (Shape{4, 3, 64}));
  for (std::size_t i = 0; i < output.value().size(); ++i) {
    const auto row = static_cast<std::size_t>(all.data()[i / 64]);
    EXPECT_EQ(output.value().data()[i], 8 * embedding.weight.value()(row, i % 64));
  }
}

// --- Bags ----------------------------------------------------------------------------------------

TEST(EmbeddingBag, TakesTheMeanUnlessToldOtherwise) {
  const Tensor table = tensor({3, 2}, {1, 6, 3, 2, 8, 8});
  EmbeddingBag mean(table);
  EmbeddingBag sum(table, {.mode = BagMode::kSum, .include_last_offset = true});
  EmbeddingBag max(table, {.mode = BagMode::kMax, .padding_idx = -1});
  const Ids all = ids({3}, {0, 1, 2}), pair = ids({1, 2}, {0, 1});
  Tape tape;
  EXPECT_EQ(mean.forward(tape, {pair}).value(), tensor({1, 2}, {2, 4}));
  EXPECT_EQ(sum.forward(tape, {all, ids({3}, {0, 2, 3})}).value(), tensor({2, 2}, {4, 8, 8, 8}));
  EXPECT_EQ(max.forward(tape, {all, ids({1}, {0})}).value(), tensor({1, 2}, {3, 6}));
  EmbeddingBag bag(table, {.mode = BagMode::kSum});
  const Variable weights = tape.input(tensor({1, 2}, {10, 100}));
  const Variable weighed = bag.forward(tape, {.ids = pair, .per_sample_weights = weights});
  EXPECT_EQ(weighed.value(), tensor({1, 2}, {310, 260}));
  tape.backward(weighed, full({1, 2}, 1));
  EXPECT_EQ(tape.gradient(weights).dense(), tensor({1, 2}, {7, 5}));
  EXPECT_EQ(bag.weight.gradient().rows().values(), tensor({2, 2}, {10, 10, 100, 100}));
  EmbeddingBag scaled(counting({2, 4}), {.scale_by_sqrt_width = true});
  EXPECT_EQ(scaled.forward(tape, {pair}).value(), tensor({1, 4}, {6, 8, 10, 12}));
  EXPECT_INVALID("EmbeddingBag: scale_grad_by_freq is set with mode max, expected mode sum or mean",
                 EmbeddingBag(table, {.mode = BagMode::kMax, .scale_grad_by_freq = true}));
}

// --- Positions -----------------------------------------------------------------------------------

TEST(PositionalEmbedding, AddsTheFirstRowsToEveryWindow) {
  Random random(1);
  PositionalEmbedding position(4, 3, random);
  Tape tape;
  const Variable x = tape.input(counting({2, 3, 3}));
  const Variable y = position.forward(x);
  for (std::size_t window = 0; window < 2; ++window)
    for (std::size_t t = 0; t < 3; ++t)
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_EQ(y.value()(window, t, i), x.value()(window, t, i) + position.weight.value()(t, i));
  tape.backward(sum(y));
  const RowGradient& rows = position.weight.gradient().rows();
  EXPECT_EQ(rows.indices(), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(rows.values(), full({3, 3}, 2));  // once from each window
}

TEST(PositionalEmbedding, StartsWithTheDeviationThatIsAskedFor) {
  Random random(7), same(7);
  const PositionalEmbedding position(3, 4, random, {.deviation = 2});
  EXPECT_EQ(position.weight.value(), same.normal({3, 4}, 0, 2));
}

TEST(PositionalEmbedding, RefusesWhatIsLongerThanItsContext) {
  Random random(1);
  PositionalEmbedding position(4, 3, random);
  Tape tape;
  EXPECT_INVALID("PositionalEmbedding: length 5 is more than the context of 4",
                 position.forward(tape.constant(zeros({2, 5, 3}))));
  EXPECT_INVALID("PositionalEmbedding: x has shape [2, 4, 2], expected [..., length, 3]",
                 position.forward(tape.constant(zeros({2, 4, 2}))));
  EXPECT_THROW(position.forward(tape.constant(zeros({3}))), std::invalid_argument);
  EXPECT_THROW(PositionalEmbedding(0, 3, random), std::invalid_argument);
  EXPECT_INVALID("PositionalEmbedding: length 5 is more than the context of 4",
                 position.rows(tape, 5));
  EXPECT_EQ(position.rows(tape, 4).value(), position.weight.value());
}

// Lookup and addition in one pass or in two, while updates of the rows are postponed.
TEST(Positions, AreTheSameAddedOnTheWayOrAfterwards) {
  const auto run = [](bool one_pass, const EmbeddingOptions& options) {
    Random random(3);
    Embedding token(7, 4, random, options);
    PositionalEmbedding learned(3, 4, random);
    Sinusoidal fixed(3, 4);
    SGD sgd({&token.weight, &learned.weight}, {.learning_rate = 0.5, .momentum = 0.9});
    for (const Ids& step :
         {ids({2, 3}, {0, 1, 2, 2, 2, 6}), ids({1, 2}, {3, 3}), ids({2, 2}, {0, 2, 6, 5})}) {
      sgd.zero_grad();
      Tape tape;
      const std::size_t length = step.shape()[1];
      const Variable x = one_pass ? token.forward(tape, step, learned.rows(tape, length)) *
                                        token.forward(tape, step, fixed.rows(tape, length))
                                  : learned.forward(token.forward(tape, step)) *
                                        fixed.forward(token.forward(tape, step));
      tape.backward(sum(x * x));
      sgd.step();
    }
    return std::pair(token.weight.value(), learned.weight.value());
  };
  for (const EmbeddingOptions& options :
       {EmbeddingOptions{}, EmbeddingOptions{.scale_by_sqrt_width = true},
        EmbeddingOptions{.padding_idx = 2}, EmbeddingOptions{.max_norm = 0.5}})
    EXPECT_EQ(run(true, options), run(false, options));
}

TEST(Embedding, TakesTheSameShapesToAddWhetherItScalesOrNot) {
  Random random(3);
  for (const bool scaled : {false, true}) {
    Embedding token(7, 4, random, {.scale_by_sqrt_width = scaled});
    Tape tape;
    EXPECT_ERROR_WITH(std::invalid_argument,
                      ": what is added has shape [2, 1, 4], expected the last axes of [2, 2, "
                      "4]",
                      token.forward(tape, ids({2, 2}, {0, 1, 2, 3}), tape.input(zeros({2, 1, 4}))));
  }
}

}  // namespace
