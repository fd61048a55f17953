#include "tests/test.hpp"

namespace {

// The generator's float arithmetic against PyTorch's.
constexpr double kRandomTolerance = 2e-6;

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
}

TEST(Embedding, ChangesTheRowsThatWereLookedUpAndNoOthers) {
  Random random(1);
  Embedding embedding(5, 3, random);
  const Tensor before = embedding.weight.value();
  SGD sgd(embedding.parameters(), {.learning_rate = 0.1});
  Tape tape;
  tape.backward(sum(embedding.forward(tape, ids({2}, {1, 3}))));
  const RowGradient& rows = embedding.weight.gradient().rows();
  EXPECT_EQ(rows.indices(), (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(rows.values(), full({2, 3}, 1));
  sgd.step();
  const Tensor& after = embedding.weight.value();
  for (std::size_t row = 0; row < 5; ++row)
    for (std::size_t i = 0; i < 3; ++i) {
      const real start = before(row, i);
      const bool looked_up = row == 1 || row == 3;
      EXPECT_EQ(after(row, i), looked_up ? start - static_cast<real>(0.1) : start) << row;
    }
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

TEST(Embedding, NeverTrainsThePaddingRow) {
  Random random(1);
  Embedding embedding(5, 3, random, {.padding_idx = 2});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(embedding.weight.value()(2, i), 0);
  const Tensor before = embedding.weight.value();
  SGD sgd(embedding.parameters(), {.learning_rate = 0.1});
  Tape tape;
  tape.backward(sum(embedding.forward(tape, ids({4}, {2, 0, 2, 4}))));
  EXPECT_EQ(embedding.weight.gradient().rows().indices(), (std::vector<std::int32_t>{0, 4}));
  sgd.step();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(embedding.weight.value()(2, i), 0);
    EXPECT_NE(embedding.weight.value()(0, i), before(0, i));
  }
}

TEST(Embedding, CountsANegativePaddingIdFromTheEnd) {
  Random random(1);
  Random same(1);
  Embedding embedding(5, 3, random, {.padding_idx = -1});
  EXPECT_EQ(embedding.weight.value(), Embedding(5, 3, same, {.padding_idx = 4}).weight.value());
  Tape tape;
  tape.backward(sum(embedding.forward(tape, ids({3}, {4, 0, 4}))));
  EXPECT_EQ(embedding.weight.gradient().rows().indices(), (std::vector<std::int32_t>{0}));
}

TEST(Embedding, DrawsTheSameNumbersWithAndWithoutPadding) {
  Random first(3);
  Random second(3);
  const Embedding plain(5, 3, first);
  const Embedding padded(5, 3, second, {.padding_idx = 0});
  for (std::size_t i = 3; i < 15; ++i)
    EXPECT_EQ(plain.weight.value().data()[i], padded.weight.value().data()[i]);
  EXPECT_EQ(first.bits(), second.bits());
}

TEST(Embedding, StartsWithTheDeviationThatIsAskedFor) {
  Random random(7), same(7);
  const Embedding small(3, 4, random, {.deviation = 0.5, .padding_idx = 1});
  Tensor expected = same.normal({3, 4}, 0, 0.5);
  std::fill_n(expected.data() + 4, 4, real{0});
  EXPECT_EQ(small.weight.value(), expected);
  EXPECT_EQ(Embedding(3, 4, random, {.deviation = 0}).weight.value(), zeros({3, 4}));
  const EmbeddingBag bag(3, 4, random, {.deviation = 0.5});  // zeros have drawn nothing
  EXPECT_EQ(bag.weight.value(), same.normal({3, 4}, 0, 0.5));
  const PositionalEmbedding position(3, 4, random, {.deviation = 2});
  EXPECT_EQ(position.weight.value(), same.normal({3, 4}, 0, 2));
  for (const double deviation : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    EXPECT_INVALID(
        concat("Embedding: deviation is ", deviation, ", expected a finite number not below 0"),
        Embedding(3, 4, random, {.deviation = deviation}));
}

TEST(Embedding, TakesAnExistingTableAsItIs) {
  const Tensor table = counting({4, 2});
  Embedding embedding(table, {.padding_idx = 1, .frozen = true});
  EXPECT_EQ(embedding.weight.value(), table);
  Tape tape;
  EXPECT_FALSE(embedding.forward(tape, ids({1}, {1})).needs_gradient());
}

TEST(Embedding, RefusesWhatIsNoTableAndIdsOutsideIt) {
  Random random(1);
  EXPECT_THROW(Embedding(0, 3, random), std::invalid_argument);
  EXPECT_THROW(Embedding(3, 0, random), std::invalid_argument);
  EXPECT_THROW(Embedding(zeros({3})), std::invalid_argument);
  EXPECT_INVALID("Embedding: padding id 3 is outside the table's 3 rows",
                 Embedding(3, 2, random, {.padding_idx = 3}));
  EXPECT_INVALID("Embedding: padding id -4 is outside the table's 3 rows",
                 Embedding(zeros({3, 2}), {.padding_idx = -4}));
  Embedding embedding(3, 2, random);
  Tape tape;
  EXPECT_INVALID("embedding: id 3 at [0, 1] is outside the table's 3 rows",
                 embedding.forward(tape, ids({1, 2}, {2, 3})));
  EXPECT_THROW(embedding.forward(tape, -1), std::invalid_argument);
}

TEST(Embedding, ARowStepIsTheDenseStep) {
  Random random(5);
  Embedding rows(50, 8, random);
  Embedding dense(rows.weight.value(), {.dense_gradient = true});
  SGD row_sgd(rows.parameters(), {.learning_rate = 0.3});
  SGD dense_sgd(dense.parameters(), {.learning_rate = 0.3});
  const Tensor target = irregular({3, 4, 8});
  for (int step = 0; step < 20; ++step) {
    Ids batch = Ids::from_shape({3, 4});
    for (std::int32_t& id : batch.storage()) id = static_cast<std::int32_t>(random.bits() % 50);
    for (auto [embedding, sgd] : {std::pair{&rows, &row_sgd}, std::pair{&dense, &dense_sgd}}) {
      sgd->zero_grad();
      Tape tape;
      const Variable difference = embedding->forward(tape, batch) - tape.constant(target);
      tape.backward(sum(difference * difference));
      EXPECT_EQ(embedding->weight.gradient().is_dense(), embedding == &dense);
      sgd->step();
    }
    ASSERT_EQ(rows.weight.value(), dense.weight.value()) << "step " << step;
  }
}

#if defined(ROWGRAD_DOUBLE)
TEST(Embedding, PassesTheGradientCheck) {
  Random random(1);
  Embedding embedding(6, 3, random, {.scale_by_sqrt_width = true});
  const auto result = gradient_check(
      [&](Tape& tape) {
        return embedding.forward(tape, ids({2, 3}, {1, 3, 3, 5, 1, 0}));
      },
      embedding.parameters());
  EXPECT_TRUE(result.passed) << result.message();
}
#endif

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
    const std::string message = error_of<std::invalid_argument>([&] {
      token.forward(tape, ids({2, 2}, {0, 1, 2, 3}), tape.input(zeros({2, 1, 4})));
    });
    EXPECT_HAS(message,
               ": what is added has shape [2, 1, 4], expected the last axes of [2, 2, "
               "4]");
  }
}

TEST(Positions, RefuseLengthsThatTheyDoNotHave) {
  Random random(3);
  PositionalEmbedding learned(3, 4, random);
  Sinusoidal fixed(3, 5);
  Tape tape;
  EXPECT_INVALID("PositionalEmbedding: length 4 is more than the context of 3",
                 learned.rows(tape, 4));
  EXPECT_INVALID("Sinusoidal: length 4 is more than the max_length of 3", fixed.rows(tape, 4));
  EXPECT_EQ(learned.rows(tape, 3).value(), learned.weight.value());
  EXPECT_EQ(fixed.rows(tape, 3).value(), fixed.table.value());
}

}  // namespace
