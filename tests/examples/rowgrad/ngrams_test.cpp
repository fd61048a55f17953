// GPTs with n-gram memories, as created by the options of train --model gpt.

#include "tests/support/short_text.hpp"
#include "tests/test.hpp"

namespace {

// The tokens are words, so that most steps look up only a few rows.
TrainOptions with_memories() {
  return {.model = "gpt",
          .tokenizer = "word",
          .stride = 8,
          .loader = {.batch = 8, .shuffle = true},
          .gpt = {.context = 8,
                  .width = 8,
                  .heads = 2,
                  .layers = 2,
                  .dropout = 0.2,
                  .memories = {.blocks = {1},
                               .ngrams = {.orders = {2, 3}, .heads = 2, .rows = 50},
                               .memory = {.head_width = 4}}},
          .epochs = 3,
          .optimizer = "adamw",
          .learning_rate = 0.01,
          .weight_decay = 0.1,
          .decays_vectors = false,
          .schedule = "cosine"};
}

TEST(RunsWithNgrams, ScheduleScalesTheRateOfTables) {
  TrainOptions options = with_memories();
  options.warmup = 4;
  const auto training = start(options);
  const Optimizer& optimizer = training->run().options().optimizer;
  ASSERT_EQ(optimizer.group_count(), 3U);
  EXPECT_DOUBLE_EQ(optimizer.learning_rate(), options.learning_rate / 5);
  for (const double rate : {0.01, 0.02}) {
    const double factor = optimizer.learning_rate() / options.learning_rate;
    options.learning_rate = rate;
    training->set_options(options);
    EXPECT_DOUBLE_EQ(optimizer.learning_rate(), rate * factor);
    training->run().train(training->run().steps() + 5);
    EXPECT_LT(optimizer.learning_rate(), rate);
    EXPECT_DOUBLE_EQ(optimizer.learning_rate(1), optimizer.learning_rate());
    EXPECT_DOUBLE_EQ(optimizer.learning_rate(2), 5 * optimizer.learning_rate());
  }
  for (const Parameter* parameter : training->model().parameters()) {
    const bool decays = parameter->name() != "memories.0.table.weight";
    if (parameter->shape().size() != 2) continue;
    EXPECT_EQ(*optimizer.decay_without_gradient(*parameter) > 0, decays) << parameter->name();
  }
  training->run().train();
  EXPECT_LT(optimizer.learning_rate(), 1e-9);
}

TEST(RunsWithNgrams, DivergedRunKeepsItsCheckpoint) {
  const TemporaryFolder folder;
  TrainOptions options = with_memories();
  options.ngram_file = folder / "table";
  {
    const auto training = start(options);
    training->run().train(2);
    training->save(folder / "good");
    training->run().train(3);
    const Tensor good = training->model().parameters()[0]->copy();
    for (std::size_t step = 4; step < 6; ++step) {
      training->model().parameters()[0]->mutable_values()[0] = kInfinity;
      EXPECT_THROW(training->save(folder / "bad"), std::runtime_error);
      training->model().parameters()[0]->assign(good);
      training->run().train(step);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "bad"));
  EXPECT_EQ(resume_from(folder / "good", short_text())->run().steps(), 2U);
}

}  // namespace
