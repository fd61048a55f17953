// Training runs of a model with a table file: resumed, and on several ranks.

#include "tests/optim/training/runs.hpp"

namespace {

constexpr std::size_t kWidth = 8;

class TableBigram : public LanguageModel {
 public:
  /// `table` is a TableFile or, for a table in memory, a Tensor.
  template <class Table>
  TableBigram(Table&& table, Random& random, TablePlacement* tables)
      : token(*this, "token", std::forward<Table>(table), EmbeddingOptions{.tables = tables}),
        head(*this, "head", kWidth, kTokens, random) {}

  Variable forward(Tape& tape, const Ids& ids) override {
    return head.forward(token.forward(tape, ids));
  }
  std::size_t context() const override { return kContext; }
  std::size_t vocabulary() const override { return kTokens; }
  std::vector<TableLookup> lookups(const Batch& batch) const override {
    ahead.push_back(batch.inputs());
    return {token.lookup_of(batch.inputs())};
  }

  mutable std::vector<Ids> ahead;
  Submodule<Embedding> token;
  Submodule<Linear> head;
};

// Returns a case with a TableBigram. `table` is a TableFile or a Tensor that must outlive the run.
RunCase case_of(auto& table, std::size_t accumulate = 1) {
  return {.name = "a table",
          .model =
              [&table](Random& random, TablePlacement* tables) {
                return std::make_unique<TableBigram>(table, random, tables);
              },
          .optimizer = kAdamW,
          .accumulate = accumulate};
}

class RunsWithTablesInFiles : public ::testing::Test {
 protected:
  std::unique_ptr<TableFile> open_or_make(const std::string& name) const {
    const std::filesystem::path table = folder_ / name;
    // [table]
    const TableFileOptions options{
        .rows = kTokens, .width = kWidth, .slots = 2, .seed = 123, .init_std = 0.01};
    auto file = file_exists(table) ? std::make_unique<TableFile>(table)
                                   : std::make_unique<TableFile>(table, options);
    // [table]
    return file;
  }

  // Returns the initial rows of the files.
  Tensor in_memory() const {
    const auto file = open_or_make("start");
    return Parameter("start", file_rows(*file)).rows(all_rows(kTokens));
  }

  std::string expected() const {
    Tensor table = in_memory();
    return outcome_of(case_of(table), {.slices = 4}, false);
  }

  TemporaryFolder folder_;
};

// Each rank has a file of all rows or, if the table is sharded, of its own rows.
TEST_F(RunsWithTablesInFiles, AreBitwiseEqualToMemoryOnAnyNumberOfRanks) {
  const std::string in_memory = expected();
  for (const bool sharded : {false, true}) {
    std::map<std::size_t, std::vector<std::uint64_t>> stored;  // rows in each file
    for (std::size_t count = 1; count <= 3; ++count) {
      stored[count].resize(count);
      run_ranks(count, [&](ProcessGroup& ranks) {
        const auto file = open_or_make(concat(sharded, count, '-', ranks.rank()));
        const RunWay way{.slices = 4, .ranks = &ranks, .sharded = sharded};
        EXPECT_TRUE(outcome_of(case_of(*file), way, false) ==
                    (sharded && ranks.rank() > 0 ? "" : in_memory));
        stored[count][ranks.rank()] = file->stored_rows();
      });
    }
    const std::uint64_t all = stored[1][0];
    EXPECT_EQ(stored[3][0] + stored[3][1] + stored[3][2], sharded ? all : 3 * all);
  }
}

TEST_F(RunsWithTablesInFiles, PrefetchTheRowsOfTheNextBatch) {
  std::vector<Ids> expected;
  const auto read_ahead = [&](const RunCase& of) {
    RunOf training(of, {.slices = 4});
    expected.clear();
    for (std::size_t batch = 1; batch < training.loader.batches(); ++batch)
      for (std::size_t slice = 0; slice < 4; ++slice)
        expected.push_back(training.loader.epoch(0).read(batch, {slice, 4}).inputs());
    training.run.run_epoch();
    return dynamic_cast<TableBigram&>(*training.model).ahead;
  };
  for (const std::size_t accumulate : {1U, 3U}) {
    const auto file = open_or_make(concat(accumulate));
    EXPECT_EQ(read_ahead(case_of(*file, accumulate)), expected) << "accumulate " << accumulate;
  }
  Tensor table = in_memory();
  EXPECT_TRUE(read_ahead(case_of(table)).empty());
}

TEST_F(RunsWithTablesInFiles, DrawEachExampleOnce) {
  struct Counted : TokenWindows {
    using TokenWindows::TokenWindows;
    Batch draw(std::span<const std::int64_t> examples, Random&) const override {
      drawn += examples.size();
      return batch(examples);
    }
    mutable std::size_t drawn = 0;
  };
  const auto file = open_or_make("drawn");
  const auto data = std::make_shared<Counted>(text_of(402, 1), kWindows);
  Random random(1);
  TableBigram model(*file, random, nullptr);
  AdamW optimizer(model.parameters());
  const DataLoader loader(data, {.batch = 9});
  TrainingRun run({.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .accumulate = 2,
                   .slices = 3});
  run.run_epoch();
  EXPECT_EQ(data->drawn, data->size());
}

TEST_F(RunsWithTablesInFiles, ThrowIfTablesDiffer) {
  EXPECT_ERROR_WITH(std::runtime_error, "token.weight differs between rank 0 and rank 1",
                    run_ranks(2, [&](ProcessGroup& ranks) {
                      const auto file = open_or_make(concat(ranks.rank()));
                      if (ranks.rank() == 1)  // a row that every batch looks up
                        file->modify(Ids32{0}).content<real>(0)[3] += real{1e-3};
                      RunOf(case_of(*file), {.slices = 4, .ranks = &ranks}).run.run_epoch();
                    }));
}

// A base class, so that the file is opened before the run and closed after it.
struct OwnedFile {
  std::unique_ptr<TableFile> file;
};

// A run whose save() also writes a checkpoint of the table. The table can return to its last two
// checkpoints.
struct RunningTableTraining : OwnedFile, RunningTraining<RunOf> {
  explicit RunningTableTraining(std::unique_ptr<TableFile> of)
      : OwnedFile{std::move(of)}, RunningTraining(case_of(*file)) {}

  StateDict save() override {
    file->checkpoint();
    return RunningTraining::save();
  }
  // Omits the checkpoint id, which depends on earlier checkpoints.
  std::string bits() override {
    RunOutcome outcome;
    outcome.at_end(trained.run);
    return outcome.bits + bits_of(trained.random.state_dict());
  }
};

TEST_F(RunsWithTablesInFiles, AreResumable) {
  int tables = 0;
  expect_to_go_on({.name = "a table in a file",
                   .make =
                       [&](bool other) {
                         return std::make_unique<RunningTableTraining>(
                             other ? std::make_unique<TableFile>(folder_ / concat(tables))
                                   : open_or_make(concat(++tables)));
                       },
                   .steps = 16,
                   .stops = {13}});
  const auto file = open_or_make("unmarked");
  RunOf training(case_of(*file));
  training.run.train(1);
  EXPECT_THROW(training.run.state_dict(), std::logic_error);  // the table has no checkpoint
}

// One rank writes the state for all ranks, because their tables have equal checkpoint ids.
TEST_F(RunsWithTablesInFiles, ResumeOnSeveralRanksFromTheStateOfOne) {
  const std::string in_memory = expected();
  StateDict saved;
  for (const bool again : {false, true})
    run_ranks(2, [&](ProcessGroup& ranks) {
      const auto file = open_or_make(concat(ranks.rank()));
      RunOf training(case_of(*file), {.slices = 4, .ranks = &ranks});
      RunOutcome outcome;
      training.run.add(outcome);
      if (again) training.run.load_state_dict(saved);
      training.run.train(again ? 15 : 7);
      file->checkpoint();
      EXPECT_EQ(outcome.bits == in_memory, again);
      if (ranks.rank() == 0 && !again) saved = training.run.state_dict();
    });
}

TEST_F(RunsWithTablesInFiles, AreUnchangedIfAStateDoesNotFit) {
  const auto file = open_or_make("table");
  RunOf training(case_of(*file), {.slices = 4});
  RunOutcome outcome;
  TrainingRun& run = training.run;
  run.add(outcome);
  run.train(7);
  // [checkpoint]
  file->checkpoint();
  const StateDict saved = run.state_dict();
  // [checkpoint]
  const StateDict::Value other = file->checkpoint_id() + "?";
  run.train(9);
  for (const StateDict& wrong :
       {without(saved, "optimizer.head.weight.step"), with(saved, "model.token.weight", other),
        with(saved, "optimizer.token.weight.exp_avg", other),
        with(saved, "optimizer.token.weight.lazy.file", other)})
    EXPECT_THROW(run.load_state_dict(wrong), std::invalid_argument);
  run.train(15);
  EXPECT_TRUE(outcome.bits == expected());
}

}  // namespace
