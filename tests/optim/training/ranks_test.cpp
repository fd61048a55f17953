// Training on several ranks is bitwise equal to training on one rank.

#include "tests/optim/training/runs.hpp"

namespace {

TEST(RanksOfATrainingRun, AreBitwiseEqualToOne) {
  std::vector<RunCase> all = kShardedCases;
  all.insert(all.end(), kWholeCases.begin(), kWholeCases.end());
  for (const bool sharded : {false, true})
    for (const RunCase& each : sharded ? kShardedCases : all)
      for (const std::size_t slices : {4, 11}) {  // 11: more slices than windows in a batch
        SCOPED_TRACE(each.name);
        const bool watched = slices == 4;
        const std::string expected = outcome_of(each, {.slices = slices}, watched);
        SingleProcess alone;
        EXPECT_TRUE(outcome_of(each, {.slices = slices, .ranks = &alone, .sharded = sharded},
                               watched) == expected);
        const bool refused = each.name == std::string("max_norm") && !sharded;
        for (std::size_t count = slices == 4 ? 2 : 4; count <= 4; ++count)
          run_ranks(count, [&](ProcessGroup& ranks) {
            const auto outcome = [&] {
              return outcome_of(each, {.slices = slices, .ranks = &ranks, .sharded = sharded},
                                watched);
            };
            if (refused)
              EXPECT_ERROR_WITH(std::invalid_argument, "words.weight has max_norm", outcome());
            else
              EXPECT_TRUE(outcome() == (sharded && ranks.rank() > 0 ? "" : expected))
                  << each.name << (sharded ? ", sharded, on rank " : " on rank ") << ranks.rank()
                  << " of " << count;
          });
      }
}

// A model that records how many bytes this rank has sent before the gradients of the first layers
// are computed.
class Watched : public Model {
 public:
  Watched(Random& random, ProcessGroup& ranks)
      : table{*this, "table", random.normal({kTokens, 8})},
        middle{*this, "middle", random.normal({8, 8})},
        head{*this, "head", random.normal({kTokens, 8})},
        ranks_(ranks) {}

  Variable loss(Tape& tape, const Batch& batch) override {
    const std::uint64_t before = ranks_.bytes_sent();
    const auto watched = [&](const Variable& x, const std::function<void()>& watch) {
      return record("watched", {x}, x.read(), [watch](Backward& node) {
        watch();
        node.slot(0).take(node.take_gradient());
      });
    };
    const Variable x = watched(embedding(tape.parameter(table), batch.inputs()),
                               [this, before] { sent.push_back(ranks_.bytes_sent() - before); });
    // Waits for all ranks, so that each rank has announced the kind of the head's gradient.
    const Variable y = watched(linear(x, tape.parameter(middle)), [this] { ranks_.any(false); });
    return cross_entropy(linear(y, tape.parameter(head)), batch.targets());
  }

  std::vector<std::uint64_t> sent;
  Parameter table, middle, head;

 private:
  ProcessGroup& ranks_;
};

TEST(RanksOfATrainingRun, SendGradientsDuringTheBackwardPass) {
  run_ranks(2, [](ProcessGroup& ranks) {
    Random random(1);
    ParallelTraining both(ranks);
    Watched model(random, ranks);
    SGD optimizer(model.parameters(), {.learning_rate = 0.1});
    DataLoader loader(text_windows(40, 1), {.batch = 10});
    TrainingRun run({.model = model,
                     .optimizer = optimizer,
                     .loader = loader,
                     .random = random,
                     .slices = 2,
                     .ranks = &both,
                     .bucket_bytes = 0});
    run.run_epoch();
    EXPECT_EQ(model.sent.size(), run.steps());
    for (const std::uint64_t bytes : model.sent)
      EXPECT_GE(bytes, model.head.size() / 2 * sizeof(real));
  });
}

TEST(RanksOfATrainingRun, ReadOnlyTheirOwnExamples) {
  struct Noted : TensorDataset {
    using TensorDataset::TensorDataset;
    Batch batch(std::span<const std::int64_t> examples) const override {
      read->insert(read->end(), examples.begin(), examples.end());
      return TensorDataset::batch(examples);
    }
    std::shared_ptr<std::vector<std::int64_t>> read = std::make_shared<std::vector<std::int64_t>>();
  };
  std::vector<std::int64_t> once(57);  // the last batch is short
  std::iota(once.begin(), once.end(), 0);
  for (std::size_t count = 1; count <= 4; ++count) {
    std::vector<std::vector<std::int64_t>> read(count);
    run_ranks(count, [&](ProcessGroup& ranks) {
      const Noted examples(ratings(57, 1));
      ParallelTraining all(ranks);
      Random random(1);
      Ratings model(kUsers, kFilms, random);
      SGD optimizer(model.parameters());
      DataLoader loader(examples, {.batch = 7});
      TrainingRun({.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .accumulate = 2,
                   .slices = 5,
                   .ranks = &all})
          .run_epoch();
      read[ranks.rank()] = *examples.read;
    });
    std::vector<std::int64_t> all;
    for (const auto& of_rank : read) all.insert(all.end(), of_rank.begin(), of_rank.end());
    std::ranges::sort(all);
    EXPECT_EQ(all, once) << count << " ranks";
  }
}

TEST(RanksOfATrainingRun, SlicesOnlyChangeRounding) {
  // The model has no dropout, because each slice would draw its own masks.
  RunOf one(kShardedCases.front()), four(kShardedCases.front(), {.slices = 4});
  for (RunOf* each : {&one, &four}) each->run.train(15);
  for (std::size_t i = 0; i < one.model->parameters().size(); ++i)
    expect_near(four.model->parameters()[i]->value(), one.model->parameters()[i]->value(), 2e-5);
  EXPECT_NEAR(four.run.history().back().training_loss, one.run.history().back().training_loss,
              1e-5);
}

TEST(RanksOfATrainingRun, ThrowIfParametersDiffer) {
  const std::string message = error_of<std::runtime_error>([] {
    run_ranks(3, [](ProcessGroup& ranks) {
      RunOf made(kShardedCases.front(), {.slices = 3, .ranks = &ranks});
      made.run.train(4);
      if (ranks.rank() == 2) made.model->parameters()[1]->mutable_values()[0] += 1;
      made.run.train(6);
    });
  });
  EXPECT_EQ(message,
            "TrainingRun: after step 6, bags.weight differs between rank 0 and rank 2, expected "
            "equal parameters on all ranks");
}

// All ranks fail in the same call: before the update, or while gradients are summed.
TEST(RanksOfATrainingRun, ContinueFromTheirLastStateUnlessASumWasInterrupted) {
  struct Failing : TrainingCallback {
    explicit Failing(bool in_backward) : in_backward_(in_backward) {}
    void after_backward(const TrainingRun&, const Tape&) override { fail(in_backward_); }
    void before_update(const TrainingRun&) override { fail(!in_backward_); }
    void fail(bool here) const {
      if (fails && here) throw std::runtime_error("enough");
    }
    bool fails = false, in_backward_;
  };
  const auto trained = [](ProcessGroup* ranks, std::size_t failures, bool in_backward,
                          std::size_t slices = 4) {
    RunOf made(kWholeCases.front(), {.slices = slices, .ranks = ranks});
    Failing failing(in_backward);
    RunOutcome outcome;
    made.run.add(failing);
    made.run.add(outcome);
    for (std::size_t step = 0; step < failures; ++step) {
      made.run.train(step);
      const StateDict last = made.run.state_dict();
      failing.fails = true;
      EXPECT_THROW(made.run.step(), std::runtime_error);
      failing.fails = false;
      EXPECT_ERROR(std::logic_error, "TrainingRun: the run has failed; load the last saved state",
                   made.run.step());
      made.run.load_state_dict(last);
      EXPECT_EQ(made.run.steps(), step);
    }
    made.run.train(9);
    return outcome.bits;
  };
  const std::string expected = trained(nullptr, 0, false);
  EXPECT_TRUE(trained(nullptr, 8, false) == expected);
  EXPECT_TRUE(trained(nullptr, 8, true) == expected);
  run_ranks(2, [&](ProcessGroup& ranks) {
    EXPECT_TRUE(trained(&ranks, 8, false) == expected);
    EXPECT_ERROR(std::logic_error,
                 "GradientExchange::start: the previous sum is not finished; call finish() first",
                 trained(&ranks, 2, true, 2));
  });
}

}  // namespace
