// Tests max_norm of Embedding and EmbeddingBag.

#include "tests/test.hpp"

namespace {

TEST(MaxNorm, MatchesPyTorchWithDeferredSteps) {
  // There are 25 steps, each with a dozen roundings of values near 1.
  const double tolerance = sizeof(real) == 8 ? 1e-12 : 2e-5;
  for (const auto& reference : golden("max_norm.json")) {
    const double norm_type = reference["norm_type"].is_string()
                                 ? std::numeric_limits<double>::infinity()
                                 : reference["norm_type"].get<double>();
    Embedding embedding(wave({6, 5}, 0.9, 0.4, 1),
                        {.max_norm = reference["max_norm"], .norm_type = norm_type});
    SGD sgd(embedding.parameters(), {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
    const auto sums = reference["output_sums"].get<std::vector<double>>();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto step = static_cast<std::int32_t>(i);
      sgd.zero_grad();
      Tape tape;
      const Variable output = embedding.forward(tape, ids({3}, {step % 6, 2 * step % 5, step % 6}));
      const Variable factors = tape.constant(wave({3, 5}, 0.5, 0.2 * static_cast<double>(i), 1));
      tape.backward(sum(output * factors));
      EXPECT_NEAR(sum(output).item(), sums[i], 15 * tolerance) << norm_type << ", step " << i;
      ASSERT_TRUE(embedding.weight.gradient().is_rows());
      sgd.step();
    }
    expect_near(embedding.weight.value(), tensor_from(reference["table_after"]), tolerance);
  }
}

TEST(MaxNorm, AllowedAfterLookupsOnTheSameTape) {
  Embedding embedding(Tensor{{3, 4}, {6, 8}}, {.max_norm = 1});
  Tape tape;
  const Variable first = embedding.forward(tape, ids({1}, {0}));
  const Variable second = embedding.forward(tape, ids({1}, {1}));
  tape.backward(sum(first + second));
  EXPECT_EQ(embedding.weight.gradient().rows().to_dense(), full({2, 2}, 1));
}

TEST(MaxNorm, RejectedAfterTheWholeTableWasRead) {
  const Tensor start{{3, 4}, {0.3, 0.4}};
  Embedding embedding(start, {.max_norm = 1});
  EmbeddingBag bag(start, {.max_norm = 1});
  // Gradients of other variables depend on a frozen table's values.
  Embedding frozen(start, {.frozen = true, .max_norm = 1});
  Tape tape;
  const Variable x = tape.input(full({1, 2}, 1));
  for (Parameter* table : {&embedding.weight, &bag.weight, &frozen.weight})
    linear(x, tape.parameter(*table));
  EXPECT_NO_THROW(embedding.forward(tape, ids({1}, {1})));  // the norm is below max_norm
  EXPECT_ERROR(
      std::logic_error,
      "embedding: max_norm would scale rows of weight, which this tape has already read as a "
      "whole",
      embedding.forward(tape, ids({1}, {0})));
  EXPECT_THROW(bag.forward(tape, {ids({1, 1}, {0})}), std::logic_error);
  EXPECT_THROW(frozen.forward(tape, ids({1}, {0})), std::logic_error);
  EXPECT_EQ(embedding.weight.value(), start);
  // Another tape that has not read the table may change it, but then this tape's backward() throws.
  const Variable loss = sum(tape.parameter(embedding.weight));
  Tape other;
  embedding.forward(other, ids({1}, {0}));
  EXPECT_ERROR_WITH(std::logic_error, "has changed since this tape read it", tape.backward(loss));
}

TEST(MaxNorm, LimitsRowsOfTableShardedOverOneRank) {
  SingleProcess alone;
  ParallelTraining tables(alone);
  Random random(1), same(1);
  Embedding whole(4, 3, random, {.max_norm = 0.5});
  Embedding sharded(4, 3, same, {.tables = &tables, .max_norm = 0.5});
  const Ids some = ids({3}, {0, 1, 0});
  for (const bool fetched : {false, true}) {
    const TableLookup lookup = sharded.lookup_of(some);
    if (fetched) tables.fetch({&lookup, 1});
    Tape tape;
    const Variable rows = sharded.forward(tape, some);
    EXPECT_EQ(rows.value(), whole.forward(tape, some).value());
    tape.backward(sum(rows));
    EXPECT_EQ(sharded.weight.value(), whole.weight.value());  // also rows 2 and 3
  }
}

TEST(MaxNorm, RejectedLookupsChangeNothing) {
  const Tensor start{{3, 4}, {6, 8}};
  Tape tape, other;
  for (const bool scale : {false, true}) {
    Embedding embedding(start, {.scale_by_sqrt_width = scale, .max_norm = 1});
    const std::string op = scale ? "Embedding" : "embedding_add";
    EXPECT_INVALID(op + ": added has shape [3], expected the last axes of [1, 2]",
                   embedding.forward(tape, ids({1}, {1}), tape.constant(zeros({3}))));
    EXPECT_ERROR(std::logic_error, op + ": added belongs to another tape",
                 embedding.forward(tape, ids({1}, {1}), other.constant(zeros({1, 2}))));
    EXPECT_THROW(embedding.forward(tape, ids({2}, {1, 2}), tape.constant(zeros({1, 2}))),
                 std::invalid_argument);
    EXPECT_EQ(embedding.weight.value(), start);
  }
  EmbeddingBag bag(start, {.mode = BagMode::kSum, .max_norm = 1});
  EXPECT_ERROR_WITH(std::invalid_argument, "offset 5 at [1] is out of range: there are 2 ids",
                    bag.forward(tape, {ids({2}, {0, 1}), ids({2}, {0, 5})}));
  EXPECT_ERROR(std::logic_error, "embedding_bag: per_sample_weights belong to another tape",
               bag.forward(tape, {.ids = ids({1, 1}, {1}),
                                  .per_sample_weights = other.constant(zeros({1, 1}))}));
  EXPECT_EQ(bag.weight.value(), start);
}

TEST(MaxNorm, LimitsRowsWhoseNormOverflows) {
  struct Case {
    double value, norm_type, expected;  // each row has four equal values
  };
  std::vector<Case> cases{{1e30, 2, 0.5}, {3e38, 1, 0.25}};  // the sum of powers overflows float
  if (sizeof(real) == 8)
    cases = {{1e160, 2, 0.5}, {1e308, 2, 0.5}, {1e308, 1, 0.25}};  // the sum overflows double
  for (const auto& [value, norm_type, expected] : cases) {
    const Tensor start = full({1, 4}, static_cast<real>(value));
    Embedding embedding(start, {.max_norm = 1, .norm_type = norm_type});
    EmbeddingBag bag(start, {.max_norm = 1, .norm_type = norm_type});
    Tape tape(Tape::kInference);
    embedding.forward(tape, ids({1}, {0}));
    EXPECT_EQ(bag.forward(tape, {ids({1, 1}, {0})}).value(), bag.weight.value());
    for (const Parameter* table : {&embedding.weight, &bag.weight})
      for (const real got : table->value())
        EXPECT_NEAR(got / expected, 1, 1e-5) << value << ", norm type " << norm_type;
  }
}

TEST(MaxNorm, MatchesPyTorchForNonFiniteValues) {
  for (const double norm_type : {1.0, 2.0, HUGE_VAL}) {
    Embedding embedding(Tensor{{INFINITY, 1}, {NAN, 5}}, {.max_norm = 1, .norm_type = norm_type});
    Tape tape(Tape::kInference);
    const Tensor rows = embedding.forward(tape, ids({2}, {0, 1})).value();
    EXPECT_TRUE(std::isnan(rows(0, 0)));
    EXPECT_EQ(rows(0, 1), 0);
    EXPECT_EQ(rows(1, 1), 5);  // a NaN norm is not above the limit
  }
}

TEST(MaxNorm, RejectsInvalidNormsAndTablesThatAreNotParameters) {
  const Tensor table = full({2, 2}, 1);
  EXPECT_INVALID("Embedding: max_norm is -1, expected a finite number above 0",
                 Embedding(table, {.max_norm = -1}));
  for (const EmbeddingOptions& options :
       {EmbeddingOptions{.max_norm = 0}, EmbeddingOptions{.max_norm = INFINITY},
        EmbeddingOptions{.max_norm = 1, .norm_type = 3}})
    EXPECT_THROW(Embedding(table, options), std::invalid_argument);
  Tape tape;
  EXPECT_INVALID(
      "embedding: max_norm is set for a table that is not a parameter, expected a parameter",
      rowgrad::embedding(tape.input(table), ids({1}, {0}), {.max_norm = 1}));
}

}  // namespace
