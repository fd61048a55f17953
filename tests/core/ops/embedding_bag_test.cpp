#include "tests/test.hpp"

namespace {

TEST(EmbeddingBag, AcceptsNoBagsAndEmptyBags) {
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    struct Case {
      Bags bags;
      std::size_t count;
      bool include_last_offset = false;
    };
    for (const Case& item : std::vector<Case>{{{ids({0, 3}, {})}, 0},
                                              {{ids({2, 0}, {})}, 2},
                                              {{ids({0}, {}), ids({0}, {})}, 0},
                                              {{ids({0}, {}), Ids{0, 0}}, 2},
                                              {{ids({0}, {}), Ids{0}}, 0, true},
                                              {{ids({0}, {}), Ids{0, 0}}, 1, true},
                                              {{Ids{2, 2}, Ids{0, 1}}, 2}}) {
      Parameter table("table", full({4, 3}, -1));
      Tape tape;
      const Variable bags = embedding_bag(
          tape.parameter(table), item.bags,
          {.mode = mode, .padding_idx = 2, .include_last_offset = item.include_last_offset});
      EXPECT_EQ(bags.value(), zeros({item.count, 3}));
      tape.backward(sum(bags));
      EXPECT_TRUE(table.gradient().rows().empty());
    }
  }
}

TEST(EmbeddingBag, MatchesPyTorchInEveryModeWithEveryOption) {
  const auto file = golden("embedding_bag.json");
  ASSERT_EQ(file["cases"].size(), 72U);
  const double tolerance = sizeof(real) == 8 ? 1e-12 : 2e-6;
  for (const auto& item : file["cases"]) {
    const std::string what = item.dump().substr(0, 120);
    Tensor weight = wave({7, 3}, 0.9, 0.4, 1.0);
    if (item.value("rounded", false))
      for (real& value : weight) value = std::nearbyint(2 * value) / 2;
    Bags bags;
    if (item.contains("offsets")) {
      bags.ids = to_ids(item["ids"].get<Ids32>());
      bags.offsets = to_ids(item["offsets"].get<Ids32>());
    } else {
      const Tensor rectangle = tensor_from(item["ids"]);
      Ids32 flat;
      for (const real id : rectangle) flat.push_back(static_cast<std::int32_t>(id));
      bags.ids = ids({4, 4}, flat);
    }
    EmbeddingLookup how;
    const std::string mode = item["mode"];
    how.mode = mode == "sum" ? BagMode::kSum : mode == "mean" ? BagMode::kMean : BagMode::kMax;
    if (item.contains("padding")) how.padding_idx = item["padding"].get<std::int32_t>();
    how.scale_grad_by_freq = item.value("scale_grad_by_freq", false);
    how.include_last_offset = item.value("include_last_offset", false);
    for (const bool dense : {false, true}) {
      how.dense_gradient = dense;
      Parameter table("table", weight);
      Tape tape;
      Variable weights;
      if (item.contains("weights_grad")) {
        const Shape shape(bags.ids.shape().begin(), bags.ids.shape().end());
        weights = tape.input(wave(shape, 1.3, 0.7, 1.5));
        bags.per_sample_weights = weights;
      }
      const Variable result = embedding_bag(tape.parameter(table), bags, how);
      expect_near(result.value(), tensor_from(item["bags"]), tolerance, what);
      tape.backward(sum(result * tape.constant(wave(result.shape(), 0.5, 0.2, 1.0))));
      EXPECT_EQ(table.gradient().is_dense(), dense) << what;
      expect_near(Gradient(table.gradient()).take_dense(), tensor_from(item["grad"]), tolerance,
                  what);
      if (bags.per_sample_weights)
        expect_near(tape.gradient(weights).dense(), tensor_from(item["weights_grad"]), tolerance,
                    what);
    }
  }
}

TEST(EmbeddingBag, RecordsNoTokensForFlatIds) {
  Random random(1);
  EmbeddingBag bag(5, 2, random, {.kind = RowKind::kToken});
  Tape tape;
  bag.forward(tape, {ids({2, 2}, {0, 1, 2, 3})});
  bag.forward(tape, {Ids{0, 1, 2, 3}, Ids{0, 3}});
  ASSERT_EQ(tape.lookups().size(), 2U);
  for (const Tape::Lookup& lookup : tape.lookups()) EXPECT_EQ(lookup.kind, RowKind::kToken);
  EXPECT_EQ(*tape.lookups()[0].tokens, ids({2, 2}, {0, 1, 2, 3}));
  EXPECT_EQ(tape.lookups()[1].tokens, nullptr);
}

TEST(EmbeddingBag, KeepsTheRowsItReadForGradientsOfWeights) {
  Parameter table("table", counting({3, 2}));
  Tape tape;
  const Variable weights = tape.input(full({1, 2}, 1));
  const Variable bags = embedding_bag(tape.parameter(table),
                                      {.ids = ids({1, 2}, {0, 2}), .per_sample_weights = weights},
                                      {.mode = BagMode::kSum});
  for (real& value : table.mutable_values()) value = 0;
  tape.backward(sum(bags));
  EXPECT_EQ(tape.gradient(weights).dense(), tensor({1, 2}, {1 + 2, 5 + 6}));
}

}  // namespace
