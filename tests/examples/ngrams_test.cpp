// GPTs with memories of n-grams, as options of train --model gpt describe them.

#include "tests/support/options_given.hpp"
#include "tests/support/short_text.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/support/text_run.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>

namespace {

// With words, most rows are not looked up in most steps.
TrainOptions with_memories(const std::string& optimizer = "adamw") {
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
          .optimizer = optimizer,
          .learning_rate = 0.01,
          .momentum = optimizer == "sgd" ? 0.9 : 0,
          .weight_decay = 0.1,
          .decays_vectors = false,
          .schedule = "cosine"};
}

std::unique_ptr<TextRun> run_with(const TrainOptions& options) {
  return std::make_unique<TextRun>(options, make_tokenizer(options.tokenizer, short_text(), 300),
                                   short_text());
}

// Of all values, those of tables in files, too.
std::string bits(const LanguageModel& model) {
  Checkpoint values;
  for (const Parameter* parameter : model.parameters()) {
    std::vector<std::int32_t> rows(parameter->shape()[0]);
    std::iota(rows.begin(), rows.end(), 0);
    values.put(parameter->name(),
               parameter->shape().size() == 2 ? parameter->rows(rows) : parameter->copy());
  }
  return bits_of(values);
}

TEST(RunsWithNgrams, GoOnAsIfTheyHadNotStopped) {
  const TemporaryFolder folder;
  for (const bool in_files : {false, true}) {
    TrainOptions options = with_memories(in_files ? "sgd" : "adamw");
    options.ngram_fold = !in_files;
    options.gpt.memories.blocks = {0, 1};
    options.shards = in_files ? 2 : 1;
    if (in_files) options.ngram_file = folder / "whole";
    const auto whole = run_with(options);
    whole->run.train(9);
    if (in_files) options.ngram_file = folder / "stopped";
    {
      const auto stopped = run_with(options);
      stopped->run.train(4);
      stopped->save(folder / "checkpoint");
      stopped->run.train(6);  // which is lost
    }
    const auto resumed = TextRun::resume(folder / "checkpoint", short_text());
    EXPECT_EQ(resumed->run.steps(), 4U);
    resumed->run.train(9);
    EXPECT_TRUE(bits(resumed->model()) == bits(whole->model()));
  }
}

TEST(RunsWithNgrams, ScaleTheRateOfTheirTablesByTheSchedule) {
  TrainOptions options = with_memories();
  const auto training = run_with(options);
  const Optimizer& optimizer = training->run.parts().optimizer;
  ASSERT_EQ(optimizer.group_count(), 3U);
  for (const double rate : {0.01, 0.5}) {
    options.learning_rate = rate;
    training->set_options(options);
    training->run.train(training->run.steps() + 5);
    EXPECT_LT(optimizer.learning_rate(0), rate);
    EXPECT_DOUBLE_EQ(optimizer.learning_rate(1), optimizer.learning_rate(0));
    EXPECT_DOUBLE_EQ(optimizer.learning_rate(2), 5 * optimizer.learning_rate(0));
  }
  for (const Parameter* parameter : training->model().parameters()) {
    const bool decays = parameter->name() != "memories.0.table.weight";
    if (parameter->shape().size() != 2) continue;
    EXPECT_EQ(*optimizer.idle_decay(*parameter) > 0, decays) << parameter->name();
  }
}

TEST(RunsWithNgrams, TakeTheRateOfTheirTablesFromTheOptimizer) {
  const auto rate = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--model", "gpt"});
    TrainOptions options{.model = "gpt"};
    complete(given(option_table_of(options), arguments), options);
    return options.ngram_rate;
  };
  EXPECT_EQ(rate({"train", "--ngrams", "2", "--optimizer", "adamw"}), 5);
  EXPECT_EQ(rate({"train", "--ngrams", "2", "--optimizer", "adagrad"}), 1);
  EXPECT_EQ(rate({"train", "--ngrams", "2", "--optimizer", "adagrad", "--ngram-rate", "3"}), 3);
}

TEST(RunsWithNgrams, RefuseSizesThatCannotBe) {
  TrainOptions options = with_memories();
  options.gpt.memories.blocks = {0, 1, 1};
  EXPECT_INVALID("--ngram-layers 1: expected some of the 2 of --layers, counted from 0, each once",
                 run_with(options));
  options = with_memories();
  options.gpt.memories.ngrams.rows = 500'000'000;
  options.gpt.memories.memory.head_width = 100'000;
  EXPECT_ERROR_WITH(std::invalid_argument, " GB, but the machine has ", run_with(options));
}

TEST(RunsWithNgrams, LeaveNoFileOfARunThatIsRefused) {
  const TemporaryFolder folder;
  TrainOptions other = with_memories();
  other.ngram_file = folder / "table.1";
  other.gpt.memories.memory.head_width = 5;
  run_with(other);  // whose file stays
  TrainOptions options = with_memories();
  options.gpt.memories.blocks = {0, 1};
  for (const std::string name : {"heads", "warmup", "table"}) {
    options.ngram_file = folder / name;
    options.gpt.heads = name == "heads" ? 3 : 2;
    options.warmup = name == "warmup" ? 1'000'000 : 0;
    EXPECT_THROW(run_with(options), std::invalid_argument);
  }
  std::set<std::string> left;
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    left.insert(file.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"table.1", "table.1.undo-0"}));
}

TEST(RunsWithNgrams, KeepTheCheckpointOfARunThatDiverges) {
  const TemporaryFolder folder;
  TrainOptions options = with_memories();
  options.ngram_file = folder / "table";
  {
    const auto training = run_with(options);
    training->run.train(2);
    training->save(folder / "good");
    training->run.train(3);
    const Tensor good = training->model().parameters()[0]->copy();
    for (std::size_t step = 4; step < 6; ++step) {
      training->model().parameters()[0]->mutable_values()[0] = kInfinity;
      EXPECT_THROW(training->save(folder / "bad"), std::runtime_error);
      training->model().parameters()[0]->assign(good);
      training->run.train(step);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "bad"));
  EXPECT_EQ(TextRun::resume(folder / "good", short_text())->run.steps(), 2U);
}

}  // namespace
