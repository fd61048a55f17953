// Training runs of a model whose table is in a file: resumed, and on several ranks.

#include "tests/support/models.hpp"
#include "tests/support/thread_ranks.hpp"
#include "tests/test.hpp"

namespace {

constexpr std::size_t kTableRows = 40;
constexpr std::size_t kTableContext = 6;

class TableBigram : public LanguageModel {
 public:
  template <class Table>
  TableBigram(Table&& table, Random& random)
      : token(*this, "token", std::forward<Table>(table)),
        head(*this, "head", 8, kTableRows, random) {}

  Variable forward(Tape& tape, const Ids& ids) override {
    return head.forward(token.forward(tape, ids));
  }
  std::size_t context() const override { return kTableContext; }
  std::size_t vocabulary() const override { return kTableRows; }
  void read_ahead(const Batch& batch) override {
    token.read_ahead(batch.inputs());
    ahead.push_back(batch.inputs());
  }

  std::vector<Ids> ahead;
  Part<Embedding> token;
  Part<Linear> head;
};

Ids table_text() {
  Random random(4);
  Ids ids = Ids::from_shape({300});
  for (std::int32_t& id : ids)
    id = static_cast<std::int32_t>(random.bits() % (random.bits() % 4 == 0 ? kTableRows : 9));
  return ids;
}

Tensor all_rows(const Parameter& table) {
  std::vector<std::int32_t> ids(kTableRows);
  std::iota(ids.begin(), ids.end(), 0);
  return table.rows(ids);
}

// A run with all its parts.
struct TableTraining {
  template <class Table>
  explicit TableTraining(Table&& table, ProcessGroup* ranks = nullptr, std::size_t accumulate = 1)
      : model(std::forward<Table>(table), random),
        optimizer(model.parameters(), {.learning_rate = 0.01, .weight_decay = 0.1}),
        loader(TokenWindows(table_text(), {.context = kTableContext, .stride = 5}),
               {.batch = 7, .shuffle = true, .seed = 3}),
        run({.model = model,
             .optimizer = optimizer,
             .loader = loader,
             .random = random,
             .accumulate = accumulate,
             .shards = 4,
             .ranks = ranks,
             .compare_every = 3}) {}

  Random random{1};
  TableBigram model;
  AdamW optimizer;
  DataLoader loader;
  TrainingRun run;
};

class RunsWithTablesInFiles : public ::testing::Test {
 protected:
  std::unique_ptr<TableFile> make(const std::string& name) const {
    return std::make_unique<TableFile>(
        folder_ / name, TableFileOptions{.rows = kTableRows, .width = 8, .states = 2, .seed = 9});
  }

  Tensor start() const {
    const auto file = make("start");
    return all_rows(Parameter("start", file_rows(*file)));
  }

  TemporaryFolder folder_;
};

TEST_F(RunsWithTablesInFiles, HaveTheBitsOfMemoryOnAnyNumberOfRanks) {
  TableTraining expected(start());
  for (int epoch = 0; epoch < 2; ++epoch) expected.run.run_epoch();
  const Tensor rows = all_rows(expected.model.token.weight);
  for (std::size_t count = 1; count <= 3; ++count) {
    std::vector<Tensor> results(count);
    run_ranks(count, [&](ProcessGroup& ranks) {
      const auto file = make(concat(count, '-', ranks.rank()));
      TableTraining training(*file, &ranks);
      for (int epoch = 0; epoch < 2; ++epoch) training.run.run_epoch();
      results[ranks.rank()] = all_rows(training.model.token.weight);
    });
    for (const Tensor& result : results) EXPECT_EQ(result, rows) << count << " ranks";
  }
}

TEST_F(RunsWithTablesInFiles, ReadTheRowsOfEachNextBatchAhead) {
  for (const std::size_t accumulate : {1U, 3U}) {
    const auto file = make(concat(accumulate));
    TableTraining training(*file, nullptr, accumulate);
    std::vector<Ids> batches;
    for (const Batch& batch : training.loader) batches.push_back(batch.inputs());
    training.loader.rewind();
    training.run.run_epoch();
    batches.erase(batches.begin());  // nothing was before it
    EXPECT_EQ(training.model.ahead, batches) << "accumulate " << accumulate;
  }
  TableTraining in_memory(start());
  in_memory.run.run_epoch();
  EXPECT_TRUE(in_memory.model.ahead.empty());
}

TEST_F(RunsWithTablesInFiles, NoticeTablesThatDiffer) {
  std::string message;
  try {
    run_ranks(2, [&](ProcessGroup& ranks) {
      const auto file = make(concat(ranks.rank()));
      if (ranks.rank() == 1) {  // a row that every batch looks up
        file->begin_change(std::vector<std::int32_t>{0});
        file->row(0)[3] += real{1e-3};
      }
      TableTraining training(*file, &ranks);
      training.run.run_epoch();
    });
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  EXPECT_HAS(message, "token.weight on rank 1 differs");
}

// Each state is that of a checkpoint of the table, which goes back to its last one and the one
// before.
class RunningTableTraining : public Running {
 public:
  explicit RunningTableTraining(std::unique_ptr<TableFile> file) : file_(std::move(file)) {
    training_.run.observe(losses_);
  }
  std::string step() override {
    training_.run.step();
    return concat(losses_.all.back());
  }
  Checkpoint save() override {
    file_->checkpoint();
    return training_.run.state_dict();
  }
  void load(const Checkpoint& state) override { training_.run.load_state_dict(state); }
  // A mark depends on the checkpoints before it.
  std::string bits() override {
    Checkpoint all;
    all.put("rows", all_rows(training_.model.token.weight));
    all.put("head", training_.model.head.state_dict());
    all.put("random", training_.random.state_dict());
    return bits_of(all);
  }

 private:
  std::unique_ptr<TableFile> file_;
  TableTraining training_{*file_};
  Losses losses_;
};

TEST_F(RunsWithTablesInFiles, AreResumable) {
  int tables = 0;
  expect_to_go_on({.name = "a table in a file",
                   .make =
                       [&](bool other) {
                         return std::make_unique<RunningTableTraining>(
                             other ? std::make_unique<TableFile>(folder_ / concat(tables))
                                   : make(concat(++tables)));
                       },
                   .steps = 20,
                   .stops = {13}});
  const auto file = make("unmarked");
  TableTraining training(*file);
  training.run.train(1);
  EXPECT_THROW(training.run.state_dict(), std::logic_error);  // the table has no mark
}

// One rank writes the state for all, as their tables have equal marks.
TEST_F(RunsWithTablesInFiles, GoOnOnSeveralRanksFromTheStateOfOne) {
  TableTraining expected(start());
  for (int epoch = 0; epoch < 2; ++epoch) expected.run.run_epoch();
  Checkpoint saved;
  run_ranks(2, [&](ProcessGroup& ranks) {
    const auto file = make(concat(ranks.rank()));
    TableTraining training(*file, &ranks);
    training.run.run_epoch();
    file->checkpoint();
    if (ranks.rank() == 0) saved = training.run.state_dict();
  });
  run_ranks(2, [&](ProcessGroup& ranks) {
    TableFile file(folder_ / concat(ranks.rank()));
    TableTraining training(file, &ranks);
    training.run.load_state_dict(saved);
    training.run.run_epoch();
    EXPECT_EQ(all_rows(training.model.token.weight), all_rows(expected.model.token.weight));
  });
}

TEST_F(RunsWithTablesInFiles, StayAsTheyAreIfAStateDoesNotFit) {
  const auto file = make("table");
  TableTraining training(*file);
  training.run.run_epoch();
  file->checkpoint();
  const Checkpoint saved = training.run.state_dict();
  const Checkpoint::Value other = file->mark() + "?";
  training.run.run_epoch();
  for (const Checkpoint& wrong :
       {without(saved, "optimizer.head.weight.step"), with(saved, "model.token.weight", other),
        with(saved, "optimizer.token.weight.exp_avg", other),
        with(saved, "optimizer.token.weight.lazy.file", other)})
    EXPECT_THROW(training.run.load_state_dict(wrong), std::invalid_argument);
  TableTraining expected(start());
  for (int epoch = 0; epoch < 2; ++epoch) expected.run.run_epoch();
  EXPECT_EQ(all_rows(training.model.token.weight), all_rows(expected.model.token.weight));
}

}  // namespace
