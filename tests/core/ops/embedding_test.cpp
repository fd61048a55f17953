#include "tests/test.hpp"

namespace {

TEST(Embedding, CostDoesNotDependOnTheSizeOfTheTable) {
  // A dense gradient of four million rows would exceed the memory limit below.
  constexpr std::size_t kRows = 4'000'000;
  Parameter table("table", empty({kRows, 2}));
  for (const std::int32_t id : {0, 3'999'999}) table.assign_rows(std::vector{id}, full({1, 2}, 1));
  const Ids looked_up = ids({2, 2}, {3'999'999, 0, 0, 3'999'999});
  std::vector<Function> lookups{[&](Inputs in) { return embedding(in[0], looked_up); },
                                [&](Inputs in) {
                                  return embedding_bag(
                                      in[0], {.ids = looked_up, .per_sample_weights = in[1]},
                                      {.mode = BagMode::kSum});
                                }};
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax})
    lookups.push_back(
        [&, mode](Inputs in) { return embedding_bag(in[0], {looked_up}, {.mode = mode}); });
  for (const Function& lookup : lookups) {
    table.zero_gradient();
    const std::size_t before = BufferPool::statistics().bytes_in_use;
    Tape tape;
    const std::vector<Variable> in{tape.parameter(table), tape.input(full({2, 2}, 1))};
    tape.backward(sum(lookup(in)));
    EXPECT_EQ(table.gradient().rows().indices(), (Ids32{0, 3'999'999}));
    EXPECT_LT(BufferPool::statistics().bytes_in_use, before + 100'000);
    EXPECT_FALSE(tape.has_read(table));
  }
}

TEST(Embedding, MatchesPyTorchWithPaddingAndScalingByFrequency) {
  const auto file = golden("embedding.json");
  ASSERT_EQ(file["cases"].size(), 4U);
  const Tensor weight = wave({7, 3}, 0.9, 0.4, 1.0);
  const Tensor upstream = wave({2, 3, 3}, 0.5, 0.2, 1.0);
  const Ids lookup = ids({2, 3}, {1, 3, 3, 6, 1, 0});
  // The gradient of a row is the sum of at most two values below 1.
  const double tolerance = sizeof(real) == 8 ? 1e-10 : 4 * kEpsilon;
  for (const auto& item : file["cases"]) {
    const auto& options = item["options"];
    EmbeddingLookup how;
    if (options.contains("padding_idx"))
      how.padding_idx = options["padding_idx"].get<std::int32_t>();
    how.scale_grad_by_freq = options.value("scale_grad_by_freq", false);
    const Tensor expected = tensor_from(item["grad"]);
    for (const bool dense : {false, true}) {
      how.dense_gradient = dense;
      Parameter table("table", weight);
      Tape tape;
      const Variable rows = embedding(tape.parameter(table), lookup, how);
      EXPECT_EQ(rows.value(),
                embedding(tape.parameter(table), lookup).value());  // including padding
      tape.backward(sum(rows * tape.constant(upstream)));
      EXPECT_EQ(table.gradient().is_dense(), dense);
      expect_near(Gradient(table.gradient()).take_dense(), expected, tolerance, options.dump());
      if (!dense && how.padding_idx) {
        const auto& indices = table.gradient().rows().indices();
        EXPECT_EQ(std::count(indices.begin(), indices.end(), *how.padding_idx), 0);
      }
    }
  }
}

// A custom op: the squares of rows of a table.
Variable squared_rows(const Variable& table, const Ids& ids) {
  Tensor rows = read_rows("squared_rows", table, ids);
  Tensor value = rows * rows;
  return record(
      "squared_rows", {table}, std::move(value), [ids, rows = std::move(rows)](Backward& node) {
        const Tensor of_rows = real{2} * rows * node.gradient();
        node.slot(0).take(
            RowGradient(node.input_shape(0), kernels::merge_rows(ids.storage(), of_rows)));
      });
}

TEST(ReadRows, RecordsLookupsOfCustomOps) {
  const Ids ids{{3, 0}, {3, 1}};
  expect_gradients([&](Inputs in) { return squared_rows(in[0], ids); }, {irregular({4, 2}, 1)});
  Parameter table("table", full({4, 2}, 3));
  Tape tape;
  const Variable rows = tape.parameter(table);
  EXPECT_EQ(squared_rows(rows, ids).value(), full({2, 2, 2}, 9));
  EXPECT_FALSE(tape.has_read(table));
  ASSERT_EQ(tape.lookups().size(), 1U);
  EXPECT_EQ(tape.lookups()[0].table, &table);
  EXPECT_EQ(tape.lookups()[0].ids, ids);
  EXPECT_EQ(squared_rows(rows * real{2}, ids).value(), full({2, 2, 2}, 36));
  EXPECT_EQ(tape.lookups().size(), 1U) << "lookup in a table that is not a parameter";
  EXPECT_INVALID("squared_rows: id 4 at [1] is out of range: the table has 4 rows",
                 squared_rows(rows, {0, 4}));

  Tape other;
  const Variable z = squared_rows(other.parameter(table), ids);
  table.assign(zeros({4, 2}));
  other.backward(sum(z));
  EXPECT_EQ(table.gradient().rows().indices(), (Ids32{0, 1, 3}));
  EXPECT_EQ(table.gradient().rows().values(), tensor({3, 2}, {6, 6, 6, 6, 12, 12}));
}

TEST(EmbeddingAdd, EqualsALookupAndASum) {
  struct Case {
    std::vector<std::size_t> shape;
    Ids32 values;
    Shape added;
    EmbeddingLookup options;
  };
  for (const Case& item : std::vector<Case>{
           {{4}, {1, 0, 1, 4}, {3}, {}},
           {{4}, {1, 0, 1, 4}, {4, 3}, {}},
           {{2, 3}, {1, 0, 1, 4, 4, 4}, {3, 3}, {}},
           {{2, 3}, {1, 0, 1, 4, 4, 4}, {2, 3, 3}, {.padding_idx = 4}},
           {{2, 2, 2}, {0, 0, 0, 0, 3, 2, 1, 0}, {2, 3}, {.scale_grad_by_freq = true}},
           {{3}, {2, 2, 1}, {3, 3}, {.dense_gradient = true}},
           {{}, {2}, {3}, {}},
           {{0, 2}, {}, {2, 3}, {}},
       }) {
    const Ids looked_up = ids(item.shape, item.values);
    const std::vector<Tensor> inputs{irregular({5, 3}, 1), irregular(item.added, 2)};
    const auto fused = [&](Inputs in) {
      return embedding_add(in[0], looked_up, in[1], item.options);
    };
    const auto plain = [&](Inputs in) { return embedding(in[0], looked_up, item.options) + in[1]; };
    Tape tape;
    const std::vector<Variable> variables{tape.input(inputs[0]), tape.input(inputs[1])};
    EXPECT_EQ(fused(variables).value(), plain(variables).value());
    const auto got = gradients_of(fused, inputs);
    const auto expected = gradients_of(plain, inputs);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(got[i].is_rows(), expected[i].is_rows());
      EXPECT_EQ(Gradient(got[i]).take_dense(), Gradient(expected[i]).take_dense());
    }
  }
}

}  // namespace
