// Training on several ranks: the same bits on any number of them.

#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include "tests/support/tensors.hpp"
#include "tests/support/thread_ranks.hpp"
#include <rowgrad/layers/gpt_model.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/adam.hpp>
#include <rowgrad/optim/sgd.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {
namespace {

using testing::run_ranks;

constexpr std::size_t kTokens = 61;
constexpr std::size_t kContext = 6;

struct Setting {
  const char* name;
  std::function<std::unique_ptr<LanguageModel>(Random&)> model;
  std::function<std::unique_ptr<Optimizer>(const std::vector<Parameter*>&)> optimizer;
  double clip = 0;
  std::size_t accumulate = 1;
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
       adamw(), 1}};
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

struct Result {
  std::vector<Tensor> parameters;
  std::vector<EpochRecord> history;
};

Result train(const Setting& setting, std::size_t shards, Ranks* ranks,
             const std::function<void(LanguageModel&, std::size_t)>& after_step = {}) {
  Random random(1);
  const auto model = setting.model(random);
  const auto optimizer = setting.optimizer(model->parameters());
  const TokenWindows windows(text(), {.context = kContext, .stride = 5});
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
                   .compare_every = 3});
  for (int epoch = 0; epoch < 2; ++epoch)
    run.run_epoch([&](double) {
      if (after_step) after_step(*model, run.steps());
      return true;
    });
  Result result{{}, run.history()};
  for (const Parameter* parameter : model->parameters())
    result.parameters.push_back(parameter->value());
  return result;
}

TEST(RanksOfATrainingRun, GiveTheBitsOfOne) {
  for (const Setting& setting : settings())
    for (const std::size_t shards : {4, 11}) {  // more than the windows of the last batch, too
      SCOPED_TRACE(setting.name);
      const Result expected = train(setting, shards, nullptr);
      for (std::size_t count = 1; count <= 4; ++count) {
        std::vector<Result> results(count);
        run_ranks(count,
                  [&](Ranks& ranks) { results[ranks.rank()] = train(setting, shards, &ranks); });
        for (const Result& result : results) {
          EXPECT_EQ(result.parameters, expected.parameters) << count << " ranks";
          for (std::size_t epoch = 0; epoch < 2; ++epoch) {
            EXPECT_EQ(result.history[epoch].training_loss, expected.history[epoch].training_loss);
            EXPECT_EQ(result.history[epoch].validation_loss,
                      expected.history[epoch].validation_loss);
          }
        }
      }
    }
}

TEST(RanksOfATrainingRun, ShardsChangeRoundingOnly) {
  const Setting& setting = settings().front();  // without dropout, whose masks shards draw anew
  const Result one = train(setting, 1, nullptr);
  const Result four = train(setting, 4, nullptr);
  for (std::size_t i = 0; i < one.parameters.size(); ++i)
    testing::expect_near(four.parameters[i], one.parameters[i], 2e-5);
  EXPECT_NEAR(four.history[1].training_loss, one.history[1].training_loss, 1e-5);
}

TEST(RanksOfATrainingRun, NoticeParametersThatDiffer) {
  std::string message;
  try {
    run_ranks(3, [](Ranks& ranks) {
      train(settings().front(), 3, &ranks, [&](LanguageModel& model, std::size_t step) {
        if (ranks.rank() == 2 && step == 4) model.parameters()[1]->mutable_values()[0] += 1;
      });
    });
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("after step 6"), std::string::npos) << message;
  EXPECT_NE(message.find("on rank 2 differs from that on rank 0"), std::string::npos) << message;
}

TEST(RanksOfATrainingRun, NeedAShardEach) {
  run_ranks(2, [](Ranks& ranks) {
    EXPECT_THROW(train(settings().front(), 1, &ranks), std::invalid_argument);
  });
}

}  // namespace
}  // namespace rowgrad
