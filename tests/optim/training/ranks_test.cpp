// Training on several ranks: the same bits on any number of them.

#include "tests/support/thread_ranks.hpp"
#include "tests/test.hpp"

namespace {

constexpr std::size_t kTokens = 61;
constexpr std::size_t kContext = 6;

struct Setting {
  const char* name;
  std::function<std::unique_ptr<LanguageModel>(Random&)> model;
  std::function<std::unique_ptr<Optimizer>(const std::vector<Parameter*>&)> optimizer;
  double clip = 0;
  std::size_t accumulate = 1;
  bool chosen_targets = false;  // with weights; some shards have none
};

auto next_token(NextTokenOptions options) {
  options.vocabulary = kTokens;
  options.context = kContext;
  options.width = 8;
  options.hidden = {8};
  return [options](Random& random) { return std::make_unique<NextTokenModel>(options, random); };
}

auto sgd(const SgdOptions& options) {
  return [options](const std::vector<Parameter*>& parameters) {
    return std::make_unique<SGD>(parameters, options);
  };
}

auto adamw() {
  return [](const std::vector<Parameter*>& parameters) {
    return std::make_unique<AdamW>(parameters,
                                   AdamWOptions{.learning_rate = 0.01, .weight_decay = 0.1});
  };
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{
      {"SGD", next_token({}), sgd({.learning_rate = 0.5})},
      {"momentum and decay", next_token({.dropout = 0.2}),
       sgd({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}), 0, 2},
      {"AdamW, clipped, with dropout", next_token({.dropout = 0.3}), adamw(), 0.1},
      {"tied tables", next_token({.tie_weights = true}), adamw(), 1},
      {"a GPT with buckets",
       [](Random& random) {
         return std::make_unique<GptModel>(GptOptions{.vocabulary = kTokens,
                                                      .context = kContext,
                                                      .width = 8,
                                                      .heads = 2,
                                                      .layers = 1,
                                                      .positions = Positions::kT5,
                                                      .dropout = 0.1},
                                           random);
       },
       adamw(), 1},
      {"targets that are chosen", next_token({}), adamw(), 1, 2, true}};
  return all;
}

Ids text() {
  Random random(4);
  Ids ids = Ids::from_shape({400});
  for (std::int32_t& id : ids) {
    const std::uint32_t bits = random.bits();
    id = static_cast<std::int32_t>(bits % 8 == 0 ? bits / 8 % kTokens : bits / 8 % 12);
  }
  return ids;
}

std::vector<Tensor> values_of(const LanguageModel& model) {
  std::vector<Tensor> values;
  for (const Parameter* parameter : model.parameters()) values.push_back(parameter->value());
  return values;
}

struct Result {
  std::vector<Tensor> parameters;
  std::vector<TrainingRecord> history;
};

Result train(const Setting& setting, std::size_t shards, ProcessGroup* ranks,
             const std::function<void(LanguageModel&, std::size_t)>& after_step = {}) {
  Random random(1);
  const auto model = setting.model(random);
  const auto optimizer = setting.optimizer(model->parameters());
  Ids targets = text();
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (i % 31 != 3) targets.data()[i] = kIgnoredTarget;
  const TokenWindows windows = setting.chosen_targets
                                   ? TokenWindows(text(), targets, {kContext, 5})
                                   : TokenWindows(text(), {.context = kContext, .stride = 5});
  if (setting.chosen_targets) model->set_loss({.class_weights = irregular({kTokens}, 2, 0.5, 2)});
  DataLoader loader(windows, {.batch = 9, .shuffle = true, .seed = 3});
  DataLoader validation(windows, {.batch = 30});
  TrainingRun run({.model = *model,
                   .optimizer = *optimizer,
                   .loader = loader,
                   .random = random,
                   .validation = &validation,
                   .clip_norm = setting.clip,
                   .accumulate = setting.accumulate,
                   .shards = shards,
                   .ranks = ranks,
                   .bucket_bytes = shards == 4 ? GradientExchange::kBucketBytes : 0,
                   .compare_every = 3,
                   .evaluation = {.accuracy = true}});
  struct : RunObserver {
    void after_step(const TrainingRun& run, double) override {
      if (call) call(as_language_model(run.parts().model, "test"), run.steps());
    }
    std::function<void(LanguageModel&, std::size_t)> call;
  } watched;
  watched.call = after_step;
  run.observe(watched);
  for (int epoch = 0; epoch < 2; ++epoch) run.run_epoch();
  return {values_of(*model), run.history()};
}

TEST(RanksOfATrainingRun, GiveTheBitsOfOne) {
  for (const Setting& setting : settings())
    for (const std::size_t shards : {4, 11}) {  // more than the windows of the last batch, too
      SCOPED_TRACE(setting.name);
      const Result expected = train(setting, shards, nullptr);
      for (std::size_t count = 1; count <= 4; ++count) {
        std::vector<Result> results(count);
        run_ranks(count, [&](ProcessGroup& ranks) {
          results[ranks.rank()] = train(setting, shards, &ranks);
        });
        for (const Result& result : results) {
          EXPECT_EQ(result.parameters, expected.parameters) << count << " ranks";
          for (std::size_t epoch = 0; epoch < 2; ++epoch) {
            EXPECT_EQ(result.history[epoch].training_loss, expected.history[epoch].training_loss);
            EXPECT_EQ(result.history[epoch].validation_loss,
                      expected.history[epoch].validation_loss);
            EXPECT_EQ(result.history[epoch].validation_accuracy,
                      expected.history[epoch].validation_accuracy);
          }
        }
      }
    }
}

// Notes how much this rank has sent while the gradients of the first layers are still to come.
class Watched : public LanguageModel {
 public:
  Watched(Random& random, ProcessGroup& ranks)
      : table{*this, "table", random.normal({kTokens, 8})},
        middle{*this, "middle", random.normal({8, 8})},
        head{*this, "head", random.normal({kTokens, 8})},
        ranks_(ranks) {}

  Variable forward(Tape& tape, const Ids& ids) override {
    const std::uint64_t before = ranks_.bytes_sent();
    const auto watched = [&](const Variable& x, const std::function<void()>& watch) {
      return record("watched", {x}, x.value(), [watch](Backward& node) {
        watch();
        node.give(0, node.take_gradient());
      });
    };
    const Variable x = watched(embedding(tape.parameter(table), ids),
                               [this, before] { sent.push_back(ranks_.bytes_sent() - before); });
    // All ranks have told of what kind the gradient of the head is.
    const Variable y = watched(linear(x, tape.parameter(middle)), [this] { ranks_.any(false); });
    return linear(y, tape.parameter(head));
  }
  std::size_t context() const override { return kContext; }
  std::size_t vocabulary() const override { return kTokens; }

  std::vector<std::uint64_t> sent;
  Parameter table;
  Parameter middle;
  Parameter head;

 private:
  ProcessGroup& ranks_;
};

TEST(RanksOfATrainingRun, SendGradientsWhileOthersAreComputed) {
  run_ranks(2, [](ProcessGroup& ranks) {
    Random random(1);
    Watched model(random, ranks);
    SGD optimizer(model.parameters(), {.learning_rate = 0.1});
    DataLoader loader(TokenWindows(text(), {.context = kContext, .stride = 5}), {.batch = 10});
    TrainingRun run({.model = model,
                     .optimizer = optimizer,
                     .loader = loader,
                     .random = random,
                     .shards = 2,
                     .ranks = &ranks,
                     .bucket_bytes = 0});
    run.run_epoch();
    EXPECT_EQ(model.sent.size(), run.steps());
    for (const std::uint64_t bytes : model.sent)
      EXPECT_GE(bytes, model.head.size() / 2 * sizeof(real));
  });
}

// Each rank has a file of its own, in which the windows of the others have ids that are refused
// when they are read.
TEST(RanksOfATrainingRun, ReadOnlyTheirOwnWindows) {
  constexpr std::size_t kShards = 5;
  constexpr std::size_t kBatch = 7;
  constexpr std::size_t kWindow = kContext + 1;
  const TemporaryFolder folder;
  const Ids ids = text();
  const std::size_t windows = ids.size() / kWindow;  // 57, so that the last batch is short
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < kTokens; ++i) tokens.push_back(std::to_string(i));
  const Vocabulary vocabulary(tokens);
  const auto trained = [&](std::size_t rank, std::size_t count, ProcessGroup* ranks) {
    std::string bytes;
    for (std::size_t i = 0; i < windows * kWindow; ++i) {
      const std::size_t window = i / kWindow;
      const std::size_t first = window / kBatch * kBatch;
      const std::size_t rows = std::min(kBatch, windows - first);
      const IndexRange mine = range_of(kShards, rank, count);
      const bool readable = window - first >= rows * mine.begin / kShards &&
                            window - first < rows * mine.end / kShards;
      bytes += static_cast<char>(readable ? ids[i] : 100);
      bytes += '\0';
    }
    const std::filesystem::path path = folder / std::to_string(rank);
    write_file(path, bytes);
    std::vector<TokenFile> files;
    files.emplace_back(path, TokenFileOptions{.raw_bytes = 2, .vocabulary = &vocabulary});
    DataLoader loader(
        TokenWindows(TokenSequence(std::move(files)), {.context = kContext, .stride = kWindow}),
        {.batch = kBatch});
    Random random(1);
    const auto model = settings().front().model(random);
    const auto optimizer = settings().front().optimizer(model->parameters());
    TrainingRun run({.model = *model,
                     .optimizer = *optimizer,
                     .loader = loader,
                     .random = random,
                     .accumulate = 2,
                     .shards = kShards,
                     .ranks = ranks});
    run.run_epoch();
    return std::pair(values_of(*model), run.history().front().training_loss);
  };
  const auto expected = trained(0, 1, nullptr);
  for (std::size_t count = 2; count <= 4; ++count)
    run_ranks(count, [&](ProcessGroup& ranks) {
      EXPECT_EQ(trained(ranks.rank(), count, &ranks), expected);
    });
}

TEST(RanksOfATrainingRun, ShardsChangeRoundingOnly) {
  const Setting& setting = settings().front();  // without dropout, whose masks shards draw anew
  const Result one = train(setting, 1, nullptr);
  const Result four = train(setting, 4, nullptr);
  for (std::size_t i = 0; i < one.parameters.size(); ++i)
    expect_near(four.parameters[i], one.parameters[i], 2e-5);
  EXPECT_NEAR(four.history[1].training_loss, one.history[1].training_loss, 1e-5);
}

TEST(RanksOfATrainingRun, NoticeParametersThatDiffer) {
  std::string message;
  try {
    run_ranks(3, [](ProcessGroup& ranks) {
      train(settings().front(), 3, &ranks, [&](LanguageModel& model, std::size_t step) {
        if (ranks.rank() == 2 && step == 4) model.parameters()[1]->mutable_values()[0] += 1;
      });
    });
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  EXPECT_HAS(message, "after step 6");
  EXPECT_HAS(message, "on rank 2 differs from that on rank 0");
}

// All ranks fail alike: in a callback, or in the model while gradients are added up.
TEST(RanksOfATrainingRun, GoOnFromTheirLastStateUnlessASumWasLeft) {
  class Failing : public NextTokenModel {
   public:
    using NextTokenModel::NextTokenModel;
    bool fails = false;

   protected:
    Variable before_look_back(const Variable& x, const Ids&) override {
      if (fails) throw std::runtime_error("no memory, say");
      return x;
    }
  };
  const auto train = [](ProcessGroup* ranks, std::size_t step, bool fails_in_callback,
                        std::size_t shards = 4) {
    Random random(1);
    Failing model({.vocabulary = kTokens, .context = kContext, .width = 8}, random);
    SGD optimizer(model.parameters(), {.learning_rate = 0.5, .momentum = 0.9});
    DataLoader loader(TokenWindows(text(), {.context = kContext, .stride = 5}), {.batch = 9});
    TrainingRun run({.model = model,
                     .optimizer = optimizer,
                     .loader = loader,
                     .random = random,
                     .shards = shards,
                     .ranks = ranks});
    struct : RunObserver {
      void before_update(const TrainingRun&) override {
        if (fails) throw std::runtime_error("enough");
      }
      bool fails = false;
    } observer;
    run.observe(observer);
    if (step > 0) {
      run.train(step);
      const Checkpoint last = run.state_dict();
      (fails_in_callback ? observer.fails : model.fails) = true;
      EXPECT_THROW(run.run_epoch(), std::runtime_error);
      observer.fails = model.fails = false;
      EXPECT_THROW(run.step(), std::logic_error);
      run.load_state_dict(last);
      EXPECT_EQ(run.steps(), step);
    }
    run.run_epoch();
    return values_of(model);
  };
  const std::vector<Tensor> expected = train(nullptr, 0, false);
  EXPECT_EQ(train(nullptr, 2, true), expected);
  EXPECT_EQ(train(nullptr, 2, false), expected);
  run_ranks(2, [&](ProcessGroup& ranks) {
    EXPECT_EQ(train(&ranks, 2, true), expected);
    EXPECT_ERROR(std::logic_error, "GradientExchange::start: the last sum was not finished",
                 train(&ranks, 2, false, 2));
  });
}

TEST(RanksOfATrainingRun, NeedAShardEach) {
  run_ranks(2, [](ProcessGroup& ranks) {
    EXPECT_THROW(train(settings().front(), 1, &ranks), std::invalid_argument);
  });
}

}  // namespace
