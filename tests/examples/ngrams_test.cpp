// GPTs with memories of n-grams, as options of train --model gpt describe them.

#include "tests/support/options_given.hpp"
#include "tests/support/short_text.hpp"
#include "tests/support/thread_ranks.hpp"
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

Tensor all_rows(const Parameter& parameter) {
  if (parameter.shape().size() != 2) return parameter.copy();
  std::vector<std::int32_t> ids(parameter.shape()[0]);
  std::iota(ids.begin(), ids.end(), 0);
  return parameter.rows(ids);
}

void expect_same_model(const TextRun& one, const TextRun& other) {
  const auto left = one.model().parameters(), right = other.model().parameters();
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i)
    EXPECT_EQ(all_rows(*left[i]), all_rows(*right[i])) << left[i]->name();
}

TEST(RunsWithNgrams, GoOnAsIfTheyHadNotStopped) {
  const TemporaryFolder folder;
  for (const std::string optimizer : {"adamw", "sgd"})
    for (const bool in_files : {false, true}) {
      TrainOptions options = with_memories(optimizer);
      options.ngram_fold = optimizer == "sgd";
      options.gpt.memories.blocks = {0, 1};
      options.shards = in_files ? 2 : 1;
      const auto file = [&](const std::string& name) {
        if (in_files) options.ngram_file = folder / concat(optimizer, name);
      };
      file("whole");
      const auto whole = run_with(options);
      whole->run.train(9);
      file("stopped");
      {
        const auto stopped = run_with(options);
        stopped->run.train(4);
        stopped->save(folder / "checkpoint");
        stopped->run.train(6);  // which is lost
      }
      const auto resumed = TextRun::resume(folder / "checkpoint", short_text());
      EXPECT_EQ(resumed->run.steps(), 4U);
      resumed->run.train(9);
      expect_same_model(*resumed, *whole);
    }
}

TEST(RunsWithNgrams, HaveAFileForEachRank) {
  const TemporaryFolder folder;
  TrainOptions options = with_memories();
  options.shards = 2;
  options.ngram_file = folder / "alone";
  const auto alone = run_with(options);
  alone->run.train(6);
  options.ngram_file = folder / "table";
  run_ranks(2, [&](ProcessGroup& ranks) {
    TextRun training(options, make_tokenizer("word", short_text(), 300), short_text(), &ranks);
    training.run.train(3);
    training.save(folder / "checkpoint");
    training.run.train(4);  // which is lost
  });
  EXPECT_TRUE(std::filesystem::exists(folder / "table.rank1"));
  run_ranks(2, [&](ProcessGroup& ranks) {
    const auto resumed = TextRun::resume(folder / "checkpoint", short_text(), &ranks);
    resumed->run.train(6);
    expect_same_model(*resumed, *alone);
  });
}

TEST(RunsWithNgrams, HaveTheSameBitsInMemoryAndInAFile) {
  const TemporaryFolder folder;
  TrainOptions options = with_memories();
  const auto in_memory = run_with(options);
  options.ngram_file = folder / "table";
  const auto in_file = run_with(options);
  const auto to = in_memory->model().parameters(), from = in_file->model().parameters();
  for (std::size_t i = 0; i < to.size(); ++i) to[i]->assign(all_rows(*from[i]));
  // The table in memory has drawn random numbers, which would differ in dropout from here on.
  const Checkpoint state = in_file->run.state_dict();
  in_memory->run.parts().random.load_state_dict(state.part("random"));
  for (const auto& training : {in_memory.get(), in_file.get()}) training->run.train(20);
  expect_same_model(*in_memory, *in_file);
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

TEST(RunsWithNgrams, AreSavedWithTheirOptions) {
  const TrainOptions options = with_memories();
  EXPECT_EQ(to_json(train_options(to_json(options))), to_json(options));
}

TEST(RunsWithNgrams, RefuseWhatCannotBe) {
  const auto message = [](const auto& change) {
    TrainOptions options = with_memories();
    change(options, options.gpt.memories);
    return error_of<std::invalid_argument>([&] { run_with(options); });
  };
  using Options = TrainOptions&;
  using Memories = GptMemories&;
  EXPECT_EQ(message([](Options, Memories m) {
              m.ngrams.orders = {2, 9};
            }),
            "--ngrams 9 is longer than --context 8");
  for (const std::vector<std::size_t>& blocks : {std::vector<std::size_t>{2}, {0, 2, 2}})
    EXPECT_EQ(message([&](Options, Memories m) { m.blocks = blocks; }),
              "--ngram-layers 2: expected some of the 2 of --layers, counted from 0, each once");
  EXPECT_EQ(message([](Options, Memories m) { m.ngrams.rows = 999'999'999; }),
            "--ngram-rows 999999999 for each of 2 times 2 heads are more rows than ids, "
            "2147483647");
  EXPECT_HAS(message([](Options, Memories m) {
               m.ngrams.rows = 500'000'000;
               m.memory.head_width = 100'000;
             }),
             " GB, but the machine has ");
}

TEST(RunsWithNgrams, RefuseTheFileOfAnotherTable) {
  const TemporaryFolder folder;
  TrainOptions options = with_memories();
  options.ngram_file = folder / "table";
  const auto message = [&](const TrainOptions& of) {
    return error_of<std::invalid_argument>([&] { run_with(of); });
  };
  run_with(options);
  run_with(options);  // with a table that was not trained
  TrainOptions wide = options;
  wide.gpt.memories.memory.head_width = 5;
  EXPECT_HAS(message(wide), "table has shape [240, 4], expected [240, 5]");
  TrainOptions plain = options;
  plain.optimizer = "adagrad";
  TrainOptions adam = plain;
  plain.ngram_file = adam.ngram_file = folder / "plain";
  adam.optimizer = "adam";
  run_with(plain);
  EXPECT_HAS(message(adam), "plain has room for 1 numbers of an optimizer beside each value");

  {
    const auto training = run_with(options);
    training->run.train(2);
    training->save(folder / "first");
    training->run.train(4);
    training->save(folder / "second");
    training->run.train(6);
    training->save(folder / "third");
  }
  EXPECT_HAS(message(options), "table has been trained; go on with --resume, or remove it");
  const auto resume = [&](const std::string& name) {
    return error_of<std::runtime_error>([&] { TextRun::resume(folder / name, short_text()); });
  };
  EXPECT_HAS(resume("first"), "first: cannot be resumed: ");  // the table cannot go back so far
  EXPECT_EQ(TextRun::resume(folder / "second", short_text())->run.steps(), 4U);
  std::filesystem::remove(folder / "table");
  EXPECT_HAS(resume("third"), "table is missing, which the run trained");
  EXPECT_FALSE(std::filesystem::exists(folder / "table"));
}

TEST(RunsWithNgrams, LeaveNoFileOfARunThatIsRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const auto& change) {
    TrainOptions options = with_memories();
    options.gpt.memories.blocks = {0, 1};
    options.ngram_file = folder / "table";
    change(options);
    EXPECT_THROW(run_with(options), std::invalid_argument);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  };
  refused([](TrainOptions& options) { options.gpt.heads = 3; });
  refused([](TrainOptions& options) { options.warmup = 1'000'000; });
  TrainOptions options = with_memories();
  options.ngram_file = folder / "table.1";
  options.gpt.memories.memory.head_width = 5;
  run_with(options);  // this one stays
  options.gpt.memories.memory.head_width = 4;
  options.gpt.memories.blocks = {0, 1};
  options.ngram_file = folder / "table";
  EXPECT_THROW(run_with(options), std::invalid_argument);
  EXPECT_TRUE(std::filesystem::exists(folder / "table.1"));
  EXPECT_FALSE(std::filesystem::exists(folder / "table.0"));
  EXPECT_FALSE(std::filesystem::exists(folder / "table.0.undo-0"));
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
