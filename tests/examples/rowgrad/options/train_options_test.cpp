#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/options/train_options.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace {

TEST(TrainOptions, RoundTripThroughJson) {
  TrainOptions options;
  options.accumulate = 3;
  options.decays_vectors = false;
  EXPECT_EQ(to_json(train_options(to_json(options))), to_json(options));
  options.model = "gpt";
  options.gpt.heads = 3;
  options.gpt.gelu = Gelu::kErf;
  EXPECT_EQ(to_json(train_options(to_json(options))), to_json(options));
  const auto gpt = json::parse(to_json(options));
  EXPECT_EQ(gpt["model"], "gpt");
  EXPECT_EQ(gpt["heads"], 3);
  EXPECT_FALSE(gpt.contains("window"));
}

TEST(TrainOptions, ListOnlyOptionsOfTheModel) {
  const auto pairs = json::parse(to_json(default_options("cbow")));
  EXPECT_EQ(pairs["negatives"], 5);
  EXPECT_EQ(pairs["window"], 5);
  EXPECT_EQ(pairs["min_count"], 5);
  EXPECT_EQ(pairs["learning_rate"], 0.15);
  for (const char* other : {"stride", "hidden", "heads", "dropout", "draw_as_pytorch"})
    EXPECT_FALSE(pairs.contains(other)) << other;
  EXPECT_EQ(to_json(train_options(pairs.dump())), to_json(default_options("cbow")));
  // Checkpoints of earlier versions have no --min-count.
  auto earlier = json::parse(to_json(default_options("gpt")));
  for (const char* added : {"min_count", "lower", "lines"})
    EXPECT_EQ(earlier.erase(added), 1U) << added;
  EXPECT_EQ(to_json(train_options(earlier.dump())), to_json(default_options("gpt")));
}

TEST(TrainOptions, LinearScheduleEndsAtTheMinimum) {
  TrainOptions options;
  options.schedule = "linear";
  options.warmup = 10;
  options.min_lr_ratio = 0.2;
  const Schedule schedule = options.make_schedule(50);
  EXPECT_DOUBLE_EQ(schedule.factor(10), 1);
  EXPECT_DOUBLE_EQ(schedule.factor(30), 0.6);
  EXPECT_DOUBLE_EQ(schedule.factor(50), 0.2);
}

TEST(TrainOptions, WeightDecayCanBeLimitedToMatrices) {
  TrainOptions options;
  options.optimizer = "adamw";
  options.weight_decay = 0.5;
  options.learning_rate = 0.1;
  options.decays_vectors = false;
  Parameter matrix("matrix", full({2, 2}, 1));
  Parameter bias("bias", full({2}, 1));
  const auto optimizer = options.make_optimizer({&bias, &matrix});
  for (Parameter* parameter : {&matrix, &bias}) parameter->add_gradient(zeros(parameter->shape()));
  optimizer->step();
  EXPECT_EQ(bias.value().data()[0], 1);
  EXPECT_NEAR(matrix.value().data()[0], 0.95, 1e-6);
}

TEST(TrainOptions, ScheduleEqualsTheTextbooksAppendixD) {
  TrainOptions options;
  options.schedule = "cosine";
  options.warmup = 27;
  EXPECT_DOUBLE_EQ(options.make_schedule(135).factor(0), 1.0 / 28);
  options.warmup_start = options.min_lr_ratio = 0.01;
  const Schedule schedule = options.make_schedule(135);
  for (int k = 0; k <= 135; ++k) {
    const double decayed = (1 + std::cos(M_PI * (k - 27) / 108)) / 2;
    const double share = k < 27 ? k / 27.0 : decayed;
    EXPECT_NEAR(1e-3 * schedule.factor(k), 1e-5 + (1e-3 - 1e-5) * share, 1e-17) << k;
  }
}

TEST(TrainOptions, TiedHeadAddsALayerOfTheEmbeddingWidth) {
  TrainOptions options;
  using Widths = std::vector<std::size_t>;
  const auto hidden = [&] { return options.next_token_options(9).hidden; };
  EXPECT_EQ(hidden(), Widths({256}));
  options.gpt.tie_weights = true;
  EXPECT_EQ(hidden(), Widths({256, 32}));
  options.hidden = {32};
  EXPECT_EQ(hidden(), Widths({32}));
  options.window = 1;
  options.hidden = {0};
  EXPECT_TRUE(hidden().empty());
}

TEST(Readable, FormatsNumbersAndTokens) {
  EXPECT_EQ(readable_seconds(7.25), "7.2 s");
  EXPECT_EQ(readable_seconds(75), "1 min 15 s");
  EXPECT_EQ(readable_seconds(3 * 3600 + 125), "3 h 2 min");
  EXPECT_EQ(readable_count(53210), "53.2 k");
  EXPECT_EQ(readable_token("a\n\x01"), "'a\\n\\x01'");
}

}  // namespace
