// Training runs of a model whose table is in a file: resumed, and on several ranks.

#include "tests/optim/training/runs.hpp"

namespace {

constexpr std::size_t kWidth = 8;

class TableBigram : public LanguageModel {
 public:
  /// A table in a file or, as a Tensor, in memory.
  template <class Table>
  TableBigram(Table&& table, Random& random, ProcessGroup* split)
      : token(*this, "token", std::forward<Table>(table), EmbeddingOptions{.split = split}),
        head(*this, "head", kWidth, kTokens, random) {}

  Variable forward(Tape& tape, const Ids& ids) override {
    return head.forward(token.forward(tape, ids));
  }
  std::size_t context() const override { return kContext; }
  std::size_t vocabulary() const override { return kTokens; }
  void read_ahead(const Batch& batch) override {
    token.read_ahead(batch.inputs());
    ahead.push_back(batch.inputs());
  }

  std::vector<Ids> ahead;
  Part<Embedding> token;
  Part<Linear> head;
};

// A run with all its parts.
struct TableTraining {
  template <class Table>
  explicit TableTraining(Table&& table, ProcessGroup* ranks = nullptr, bool split = false,
                         std::size_t accumulate = 1)
      : model(std::forward<Table>(table), random, split ? ranks : nullptr),
        optimizer(model.parameters(), {.learning_rate = 0.01, .weight_decay = 0.1}),
        loader(text_windows(50, 4), {.batch = 7, .shuffle = true, .seed = 3}),
        run({.model = model,
             .optimizer = optimizer,
             .loader = loader,
             .random = random,
             .accumulate = accumulate,
             .shards = 4,
             .ranks = ranks,
             .compare_every = 3,
             .epochs = 2}) {
    run.observe(outcome);
  }

  Random random{1};
  TableBigram model;
  AdamW optimizer;
  DataLoader loader;
  TrainingRun run;
  RunOutcome outcome;
};

class RunsWithTablesInFiles : public ::testing::Test {
 protected:
  std::unique_ptr<TableFile> open_or_make(const std::string& name) const {
    const std::filesystem::path table = folder_ / name;
    // [table]
    auto file = file_exists(table)
                    ? std::make_unique<TableFile>(table)
                    : std::make_unique<TableFile>(table, TableFileOptions{.rows = kTokens,
                                                                          .width = kWidth,
                                                                          .states = 2,
                                                                          .seed = 123,
                                                                          .deviation = 0.01});
    // [table]
    return file;
  }

  // The same rows in memory.
  Tensor in_memory() const {
    const auto file = open_or_make("start");
    std::vector<std::int32_t> ids(kTokens);
    std::iota(ids.begin(), ids.end(), 0);
    return Parameter("start", file_rows(*file)).rows(ids);
  }

  std::string expected() const {
    TableTraining training(in_memory());
    training.run.train();
    return training.outcome.bits;
  }

  TemporaryFolder folder_;
};

// Each rank has a file of all rows or, of a split table, of its own.
TEST_F(RunsWithTablesInFiles, HaveTheBitsOfMemoryOnAnyNumberOfRanks) {
  const std::string in_memory = expected();
  for (const bool split : {false, true}) {
    std::map<std::size_t, std::vector<std::uint64_t>> stored;  // rows in each file
    for (std::size_t count = 1; count <= 3; ++count) {
      stored[count].resize(count);
      run_ranks(count, [&](ProcessGroup& ranks) {
        const auto file = open_or_make(concat(split, count, '-', ranks.rank()));
        TableTraining training(*file, &ranks, split);
        training.run.train();
        EXPECT_TRUE(training.outcome.bits == (split && ranks.rank() > 0 ? "" : in_memory));
        stored[count][ranks.rank()] = file->rows_stored();
      });
    }
    const std::uint64_t all = stored[1][0];
    EXPECT_EQ(stored[3][0] + stored[3][1] + stored[3][2], split ? all : 3 * all);
  }
}

TEST_F(RunsWithTablesInFiles, ReadTheRowsOfEachNextBatchAhead) {
  for (const std::size_t accumulate : {1U, 3U}) {
    const auto file = open_or_make(concat(accumulate));
    TableTraining training(*file, nullptr, false, accumulate);
    std::vector<Ids> batches;
    for (const Batch& batch : training.loader) batches.push_back(batch.inputs());
    training.loader.rewind();
    training.run.run_epoch();
    batches.erase(batches.begin());  // nothing was before it
    EXPECT_EQ(training.model.ahead, batches) << "accumulate " << accumulate;
  }
  TableTraining training(in_memory());
  training.run.run_epoch();
  EXPECT_TRUE(training.model.ahead.empty());
}

TEST_F(RunsWithTablesInFiles, NoticeTablesThatDiffer) {
  EXPECT_ERROR_WITH(std::runtime_error, "token.weight on rank 1 differs",
                    run_ranks(2, [&](ProcessGroup& ranks) {
                      const auto file = open_or_make(concat(ranks.rank()));
                      if (ranks.rank() == 1) {  // a row that every batch looks up
                        file->begin_change(std::vector<std::int32_t>{0});
                        file->row(0)[3] += real{1e-3};
                      }
                      TableTraining(*file, &ranks).run.run_epoch();
                    }));
}

// A base, so that it is made before the run that reads it, and goes after it.
struct OwnedFile {
  std::unique_ptr<TableFile> file;
};

// Each state is that of a checkpoint of the table, which goes back to its last one and the one
// before.
struct RunningTableTraining : OwnedFile, RunningTraining<TableTraining> {
  explicit RunningTableTraining(std::unique_ptr<TableFile> of)
      : OwnedFile{std::move(of)}, RunningTraining(*file) {}

  Checkpoint save() override {
    file->checkpoint();
    return RunningTraining::save();
  }
  // A mark depends on the checkpoints before it.
  std::string bits() override {
    trained.outcome.at_end(trained.run);
    return trained.outcome.bits + bits_of(trained.random.state_dict());
  }
};

TEST_F(RunsWithTablesInFiles, AreResumable) {
  int tables = 0;
  expect_to_go_on({.name = "a table in a file",
                   .make =
                       [&](bool other) {
                         return std::make_unique<RunningTableTraining>(
                             open_or_make(concat(other ? tables : ++tables)));
                       },
                   .steps = 16,
                   .stops = {13}});
  const auto file = open_or_make("unmarked");
  TableTraining training(*file);
  training.run.train(1);
  EXPECT_THROW(training.run.state_dict(), std::logic_error);  // the table has no mark
}

// One rank writes the state for all, as their tables have equal marks.
TEST_F(RunsWithTablesInFiles, GoOnOnSeveralRanksFromTheStateOfOne) {
  const std::string in_memory = expected();
  Checkpoint saved;
  for (const bool again : {false, true})
    run_ranks(2, [&](ProcessGroup& ranks) {
      const auto file = open_or_make(concat(ranks.rank()));
      TableTraining training(*file, &ranks);
      if (again) training.run.load_state_dict(saved);
      training.run.run_epoch();
      file->checkpoint();
      EXPECT_EQ(training.outcome.bits == in_memory, again);
      if (ranks.rank() == 0 && !again) saved = training.run.state_dict();
    });
}

TEST_F(RunsWithTablesInFiles, StayAsTheyAreIfAStateDoesNotFit) {
  const auto file = open_or_make("table");
  TableTraining training(*file);
  TrainingRun& run = training.run;
  run.run_epoch();
  // [checkpoint]
  file->checkpoint();
  const Checkpoint saved = run.state_dict();
  // [checkpoint]
  const Checkpoint::Value other = file->mark() + "?";
  run.run_epoch();
  for (const Checkpoint& wrong :
       {without(saved, "optimizer.head.weight.step"), with(saved, "model.token.weight", other),
        with(saved, "optimizer.token.weight.exp_avg", other),
        with(saved, "optimizer.token.weight.lazy.file", other)})
    EXPECT_THROW(run.load_state_dict(wrong), std::invalid_argument);
  run.train();
  EXPECT_TRUE(training.outcome.bits == expected());
}

}  // namespace
