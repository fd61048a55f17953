// Runs on bags of ids of different lengths.

#include "tests/optim/training/runs.hpp"

namespace {

// [classifier]
struct Opinions : Classifier {
  Opinions(std::size_t words, Random& random)
      : bag(*this, "bag", words, 4, random), head(*this, "head", 4, 2, random) {}

  Variable logits(Tape& tape, const Batch& batch) override {
    return head.forward(bag.forward(tape, batch.bags[0]));
  }
  const Ids& targets(const Batch& batch) const override { return batch.ids[0]; }
  std::size_t classes() const override { return 2; }

  Submodule<EmbeddingBag> bag;
  Submodule<Linear> head;
};
// [classifier]

struct BagModel : Opinions {
  explicit BagModel(Random& random) : Opinions(kTokens, random) {}
};

/// A BagModel that takes ids [rows, length] with padding, which its bags ignore.
struct PaddedModel : BagModel {
  using BagModel::BagModel;
  Variable logits(Tape& tape, const Batch& batch) override {
    return head.forward(
        embedding_bag(tape.parameter(bag.weight), {batch.ids[1]}, {.padding_idx = kTokens - 1}));
  }
};

// Returns 20 bags of 0 to 4 ids, both as bags and padded to 6 ids.
Batch bags() {
  constexpr std::size_t kBags = 20, kLongest = 6;
  Batch all{.ids = {Ids::from_shape({kBags}), Ids::from_shape({kBags, kLongest})}};
  std::ranges::fill(all.ids[1], kTokens - 1);
  Ids32 flat, offsets;
  for (std::size_t i = 0; i < kBags; ++i) {
    offsets.push_back(static_cast<std::int32_t>(flat.size()));
    all.ids[0][i] = static_cast<std::int32_t>(i % 2);
    for (std::size_t k = 0; k < i * i % (kLongest + 1); ++k) {
      flat.push_back(static_cast<std::int32_t>((7 * i + k * k) % (kTokens - 1)));
      all.ids[1].data()[i * kLongest + k] = flat.back();
    }
  }
  all.bags = {{to_ids(flat), to_ids(offsets)}};
  return all;
}

/// Bags that lose about half of their words and get a negative word, both drawn at random.
struct DrawnBags : TensorDataset {
  using TensorDataset::TensorDataset;
  Batch draw(std::span<const std::int64_t> examples, Random& random) const override {
    Batch drawn = batch(examples);
    const RaggedIds all = std::exchange(drawn.bags[0], {});
    Ids32 kept, offsets, negatives;
    for (std::size_t bag = 0; bag < examples.size(); ++bag) {
      offsets.push_back(static_cast<std::int32_t>(kept.size()));
      negatives.push_back(static_cast<std::int32_t>(random.bits() % (kTokens - 1)));
      const std::size_t end = bag + 1 < examples.size()
                                  ? static_cast<std::size_t>(all.offsets[bag + 1])
                                  : all.ids.size();
      for (auto i = static_cast<std::size_t>(all.offsets[bag]); i < end; ++i)
        if (random.bits() % 2 == 0) kept.push_back(all.ids[i]);
    }
    drawn.bags[0] = {to_ids(kept), to_ids(offsets)};
    drawn.ids.push_back(to_ids(negatives));
    return drawn;
  }
};

struct NegativesModel : Model {
  explicit NegativesModel(Random& random) : bag(*this, "bag", kTokens, 4, random) {}

  Variable loss(Tape& tape, const Batch& batch) override {
    const Variable x = bag.forward(tape, batch.bags[0]);
    const Variable negative = embedding(tape.parameter(bag.weight), batch.ids[2]);
    return mean(x * x) + mean(softplus(sum(x * negative, {-1})));
  }

  Submodule<EmbeddingBag> bag;
};

template <class Of, class Data = TensorDataset>
struct BagRun {
  explicit BagRun(std::size_t slices, std::size_t accumulate = 1, ProcessGroup* ranks = nullptr)
      : ranks_of_run(parallel(ranks)),
        loader(Data(bags()), {.batch = 6 / accumulate, .shuffle = true}),
        run({.model = model,
             .optimizer = optimizer,
             .loader = loader,
             .random = random,
             .accumulate = accumulate,
             .slices = slices,
             .ranks = ranks_of_run ? &*ranks_of_run : nullptr,
             .epochs = 3}) {
    run.add(rows);
  }
  Random random{1};
  std::optional<ParallelTraining> ranks_of_run;
  Of model{random};
  SGD optimizer{model.parameters(), {.learning_rate = 0.5}};
  DataLoader loader;
  TrainingRun run;
  RowHistory rows{model};
};

TEST(Bags, TrainLikePaddedIds) {
  BagRun<PaddedModel> padded(1);
  padded.run.train();
  const auto expect_equal = [&](BagRun<BagModel>& trained) {
    trained.run.train();
    constexpr double kTolerance = 12 * 30 * kEpsilon;  // 12 steps with sums of up to 30 terms
    expect_near(trained.model.bag.weight.value(), padded.model.bag.weight.value(), kTolerance);
    expect_near(trained.model.head.weight.value(), padded.model.head.weight.value(), kTolerance);
    EXPECT_NEAR(trained.run.history().back().training_loss,
                padded.run.history().back().training_loss, kTolerance);
  };
  for (const std::size_t slices : {1, 3})
    for (const std::size_t accumulate : {1, 2}) {
      BagRun<BagModel> trained(slices, accumulate);
      expect_equal(trained);
    }
  run_ranks(2, [&](ProcessGroup& ranks) {
    BagRun<BagModel> trained(3, 1, &ranks);
    expect_equal(trained);
  });
}

TEST(Bags, HaveAnAccuracy) {
  BagRun<BagModel> trained(1);
  DataLoader all(TensorDataset(bags()), {.batch = 7});
  TrainingRunOptions options = trained.run.options();
  options.validation = &all;
  options.evaluation.accuracy = true;
  options.epochs = 40;
  TrainingRun run(options);
  run.train();
  const Batch whole = bags();
  Tape tape(Tape::kInference);
  const Variable logits = trained.model.logits(tape, whole);
  BatchScore counted;
  count_correct(counted, logits.value(), whole.ids[0]);
  const double accuracy = static_cast<double>(counted.correct) / 20;
  EXPECT_GT(accuracy, 0.8);
  EXPECT_EQ(run.history().back().validation_accuracy, accuracy);
  const Score score = *evaluate(trained.model, all, {.accuracy = true});
  EXPECT_EQ(score.accuracy, accuracy);
  EXPECT_NEAR(score.loss, cross_entropy(logits, whole.ids[0]).item(), 30 * kEpsilon);
  // Class weights affect losses, not accuracies.
  trained.model.set_loss({.class_weights = Tensor{0, 2}});
  EXPECT_EQ(evaluate(trained.model, all, {.accuracy = true})->accuracy, accuracy);
  EXPECT_EQ(trained.model.loss_weight(whole), 20);  // 10 targets of class 1
}

TEST(Bags, AreCountedInARowHistory) {
  BagRun<BagModel> trained(2);
  trained.run.train();
  std::map<std::int32_t, std::size_t> expected;
  const Batch examples = bags();
  for (const std::int32_t id : examples.bags[0].ids) expected[id] += 3;  // in 3 epochs
  const TableHistory& table = trained.rows.of(trained.model.bag.weight);
  ASSERT_EQ(table.ids().size(), expected.size());
  for (std::size_t i = 0; i < table.ids().size(); ++i)
    EXPECT_EQ(table.row(i).lookups, expected.at(table.ids()[i])) << table.ids()[i];
}

TEST(Bags, AreResumable) {
  BagRun<BagModel> whole(1), begun(1), resumed(1);
  whole.run.train();
  begun.run.train(5);
  resumed.run.load_state_dict(begun.run.state_dict());
  resumed.run.train();
  EXPECT_TRUE(bits_of(resumed.model.state_dict()) == bits_of(whole.model.state_dict()));
}

using DrawingRun = BagRun<NegativesModel, DrawnBags>;

std::string bits_after(DrawingRun& trained) {
  trained.run.train();
  return bits_of(trained.model.state_dict());
}

TEST(DrawnExamples, AreTheSameInAResumedRun) {
  for (const std::size_t slices : {1, 3}) {
    DrawingRun whole(slices);
    const std::string expected = bits_after(whole);
    for (const std::size_t step : {1, 4, 7}) {  // an epoch has 4 steps
      DrawingRun begun(slices), resumed(slices);
      begun.run.train(step);
      resumed.run.load_state_dict(begun.run.state_dict());
      EXPECT_TRUE(bits_after(resumed) == expected) << slices << ' ' << step;
    }
    run_ranks(slices, [&](ProcessGroup& ranks) {
      DrawingRun parallel(slices, 1, &ranks);
      EXPECT_TRUE(bits_after(parallel) == expected);
    });
  }
}

TEST(DrawnExamples, DependOnlyOnEpochAndBatch) {
  const DataLoader loader(DrawnBags(bags()), {.batch = 6});
  const auto drawn = [](const Batch& batch) {
    return std::pair(values(batch.bags[0].ids), values(batch.ids[2]));
  };
  std::set<std::pair<Ids32, Ids32>> all;
  for (const std::size_t epoch : {0, 1})
    for (std::size_t i = 0; const Batch& batch : loader.epoch(epoch)) {
      all.insert(drawn(batch));
      std::size_t k = 0;
      for (const Batch& again : loader.epoch(epoch))
        EXPECT_EQ(drawn(again) == drawn(batch), k++ == i);
      EXPECT_EQ(drawn(loader.epoch(epoch, i).read(i)), drawn(batch));
      ++i;
    }
  EXPECT_EQ(all.size(), 8U);
  Random random(1);
  NegativesModel model(random);
  EXPECT_EQ(evaluate(model, loader)->loss, evaluate(model, loader)->loss);
}

}  // namespace
