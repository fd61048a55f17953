// Optimizers of tables in files: what they refuse, what they cost, and how they go back.
// (exact_rows_test.cpp compares the numbers with those in memory.)

#include "tests/optim/optimizers.hpp"

namespace {

using Ids32 = std::vector<std::int32_t>;

// Takes a table back to a mark of its file.
void restore(Parameter& table, const std::string& mark) {
  Checkpoint state;
  state.put("table", mark);
  table.load(state, "table");
}

class TableFileOptimizers : public ::testing::Test {
 protected:
  // With gradients of ones for these rows of a table [4, 2].
  static void step(Optimizer& optimizer, Parameter& table, const Ids32& rows) {
    optimizer.zero_grad();
    table.add_gradient(RowGradient({4, 2}, rows, full({rows.size(), 2}, 1)));
    optimizer.step();
  }

  TemporaryFolder folder_;
};

TEST_F(TableFileOptimizers, LeaveTheTableInTheFile) {
  TableFile file(folder_ / "words.table", {.rows = 4, .width = 2, .states = 1});
  Embedding table(file);
  Parameter& weight = table.weight;
  weight.rename("weight");
  SGD sgd({&weight}, {.momentum = 0.9});
  step(sgd, weight, {1});
  EXPECT_ERROR_WITH(std::logic_error,
                    "weight: value() needs all values in memory, but those of this table are in ",
                    weight.value());
  EXPECT_THROW(weight.copy(), std::logic_error);
  EXPECT_THROW(weight.mutable_values(), std::logic_error);
  EXPECT_THROW(weight.assign(zeros({4, 2})), std::logic_error);
  EXPECT_THROW(table.state_dict(), std::logic_error);  // before a checkpoint of the table
  const Tensor rows = weight.rows(Ids32{0, 1, 2, 3});
  sgd.zero_grad();
  weight.add_gradient(zeros({4, 2}));
  EXPECT_ERROR_WITH(std::invalid_argument,
                    "SGD: the gradient of weight is dense, which takes a pass over all rows, but "
                    "those of weight are in ",
                    sgd.step());
  EXPECT_EQ(weight.rows(Ids32{0, 1, 2, 3}), rows);
}

// What rows are owed is in the state of the optimizer: without it, they are no use.
TEST_F(TableFileOptimizers, GiveNoRowsThatAreOwedStepsNobodyKnows) {
  for (const AnyOptions& options :
       {AnyOptions(SgdOptions()), AnyOptions(SgdOptions{.momentum = 0.9, .weight_decay = 0.01}),
        AnyOptions(SgdOptions{.momentum = 0.9, .rows = RowUpdates::kTouchedOnly}),
        AnyOptions(AdamOptions()), AnyOptions(AdamOptions{.weight_decay = 0.01}),
        AnyOptions(AdamWOptions{.amsgrad = true}), AnyOptions(AdagradOptions()),
        AnyOptions(RmsPropOptions{.weight_decay = 0.01})}) {
    std::filesystem::remove_all(folder_ / "words.table");
    const Ids32 all{0, 1, 2, 3};
    Tensor rows;
    Checkpoint model, state;
    {
      TableFile file(folder_ / "words.table", {.rows = 4, .width = 2, .states = 3});
      Embedding table(file);
      const auto optimizer = make_optimizer(options, table.weight);
      for (int i = 0; i < 10; ++i) step(*optimizer, table.weight, {i % 3});
      file.checkpoint();
      rows = table.weight.rows(all);
      model = table.state_dict();
      state = optimizer->state_dict();
    }
    TableFile file(folder_ / "words.table");
    Embedding table(file);
    const auto optimizer = make_optimizer(options, table.weight);
    table.load_state_dict(model);
    if (file.has_pending()) {
      EXPECT_ERROR_WITH(std::logic_error, "have pending updates of an optimizer",
                        table.weight.rows(Ids32{1}));
      EXPECT_THROW(step(*optimizer, table.weight, {0}), std::logic_error);
      EXPECT_THROW(table.weight.assign_rows(Ids32{1}, zeros({1, 2})), std::logic_error);
    }
    optimizer->load_state_dict(state);
    EXPECT_EQ(table.weight.rows(all), rows);
  }
}

TEST_F(TableFileOptimizers, AreRefusedWithoutRoomForTheirStates) {
  TableFile file(folder_ / "words.table", {.rows = 4, .width = 2, .states = 1});
  Embedding table(file);
  AdamW adamw({&table.weight});
  table.weight.add_gradient(RowGradient({4, 2}, {0}, full({1, 2}, 1)));
  EXPECT_ERROR_WITH(std::invalid_argument, "AdamW: needs 2 states of each row, but", adamw.step());
  EXPECT_EQ(file.states_begun(), 0);
  EXPECT_ERROR_WITH(std::invalid_argument, "expected 0 for a table in a file",
                    Adagrad adagrad({&table.weight}, AdagradOptions{.initial_accumulator = 0.1});
                    adagrad.step());
  SGD sgd({&table.weight}, SgdOptions{.momentum = 0.9});
  sgd.step();
}

// As in memory, where their states go with them.
TEST_F(TableFileOptimizers, BeginWithStatesOfZeros) {
  TableFile file(folder_ / "words.table", {.rows = 4, .width = 2, .states = 1});
  Embedding table(file);
  const auto moved = [&](Optimizer& optimizer, std::int32_t row) {
    const Tensor before = table.weight.rows(Ids32{row});
    step(optimizer, table.weight, {row});
    return before(0, 0) - table.weight.rows(Ids32{row})(0, 0);
  };
  for (int again = 0; again < 2; ++again) {
    Adagrad adagrad({&table.weight}, AdagradOptions{.learning_rate = 1});
    EXPECT_NEAR(moved(adagrad, 0), 1, 1e-5);
    EXPECT_NEAR(moved(adagrad, 0), std::sqrt(0.5), 1e-5);
    EXPECT_NEAR(moved(adagrad, 1), 1, 1e-5);
  }
  SGD sgd({&table.weight}, SgdOptions{.learning_rate = 1, .momentum = 0.5});
  EXPECT_NEAR(moved(sgd, 0), 1, 1e-5);
  EXPECT_NEAR(moved(sgd, 2), 1, 1e-5);
  const Tensor idle = table.weight.rows(Ids32{1});
  EXPECT_NEAR(moved(sgd, 0), 1.25, 1e-5);
  EXPECT_EQ(table.weight.rows(Ids32{1}), idle);  // it is owed steps of a momentum of zeros
}

TEST_F(TableFileOptimizers, MayMakeAStepWithoutRows) {
  TableFile file(folder_ / "words.table", {.rows = 4, .width = 2, .states = 1});
  Embedding table(file);
  const std::string mark = file.mark();
  {
    SGD sgd({&table.weight}, SgdOptions{.momentum = 0.9});
    step(sgd, table.weight, {});
  }
  restore(table.weight, mark);
  table.weight.rows(Ids32{1});
}

class LoadOneCheckpointOnly : public TableFileOptimizers,
                              public ::testing::WithParamInterface<RowUpdates> {};

TEST_P(LoadOneCheckpointOnly, ThatOfTheTable) {
  TableFile file(folder_ / "words.table", {.rows = 4, .width = 2, .states = 1});
  Embedding table(file);
  SGD sgd({&table.weight}, {.momentum = 0.9, .rows = GetParam()});
  const auto step_and_mark = [&] {
    step(sgd, table.weight, {0});
    file.checkpoint();
  };
  step_and_mark();
  const Checkpoint model = table.state_dict(), before = sgd.state_dict();
  step_and_mark();
  step_and_mark();
  const Tensor rows = table.weight.rows(Ids32{0, 1});
  EXPECT_ERROR_WITH(std::invalid_argument, "load the state of the model first",
                    sgd.load_state_dict(before));
  EXPECT_EQ(table.weight.rows(Ids32{0, 1}), rows);
  EXPECT_THROW(table.load_state_dict(model), std::invalid_argument);  // too long ago
  EXPECT_EQ(table.weight.rows(Ids32{0, 1}), rows);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, LoadOneCheckpointOnly,
                         ::testing::Values(RowUpdates::kExact, RowUpdates::kTouchedOnly));

// A byte of the journal that the table goes back with.
void damage_journal(const TableFile& file, const char* number) {
  const std::string journal = file.path().string() + ".undo-" + number;
  std::string contents = read_file(journal);
  contents.back() = static_cast<char>(contents.back() ^ 1);
  write_file(journal, contents);
}

TEST_F(TableFileOptimizers, KeepWhatRowsAreOwedIfTheTableCannotGoBack) {
  TableFile file(folder_ / "words.table", {.rows = 4, .width = 2, .states = 1});
  Embedding table(file);
  SGD sgd({&table.weight}, {.momentum = 0.9});
  std::vector<std::string> marks;
  for (const std::int32_t row : {0, 1}) {
    step(sgd, table.weight, {row});
    file.checkpoint();
    marks.push_back(file.mark());
  }
  const Tensor rows = table.weight.rows(Ids32{0, 1, 2, 3});
  damage_journal(file, "1");
  EXPECT_THROW(restore(table.weight, marks[0]), std::runtime_error);
  EXPECT_EQ(file.mark(), marks[1]);
  EXPECT_EQ(table.weight.rows(Ids32{0, 1, 2, 3}), rows);
}

TEST_F(TableFileOptimizers, GoBackInAllTablesOfALayerOrInNone) {
  struct TwoTables : Layer {
    TwoTables(TableFile& one, TableFile& two)
        : first(*this, "first", one), second(*this, "second", two) {}
    Part<Embedding> first, second;
  };
  TableFile one(folder_ / "one.table", {.rows = 4, .width = 2});
  TableFile two(folder_ / "two.table", {.rows = 4, .width = 2});
  TwoTables layer(one, two);
  std::vector<Checkpoint> states;
  for (const real value : {1, 2}) {
    for (Embedding* table :
         {static_cast<Embedding*>(&layer.first), static_cast<Embedding*>(&layer.second)})
      table->weight.assign_rows(Ids32{1}, full({1, 2}, value));
    one.checkpoint();
    two.checkpoint();
    states.push_back(layer.state_dict());
  }
  damage_journal(two, "1");
  EXPECT_THROW(layer.load_state_dict(states[0]), std::runtime_error);
  EXPECT_EQ(layer.state_dict().text("first.weight"), states[1].text("first.weight"));
  EXPECT_EQ(layer.first.weight.rows(Ids32{1})(0, 0), 2);
  layer.load_state_dict(states[1]);
}

TEST_F(TableFileOptimizers, AreRefusedDamagedRowsBeforeAnythingChanges) {
  {
    TableFile file(folder_ / "words.table", {.rows = 4, .width = 2});
    file.begin_change(Ids32{1, 2});
    file.checkpoint();
  }
  std::string contents = read_file(folder_ / "words.table");
  const std::size_t stride = (contents.size() - 4096) / 4;
  contents[4096 + stride] ^= 1;  // the step of row 1
  write_file(folder_ / "words.table", contents);
  TableFile file(folder_ / "words.table");
  Embedding table(file);
  SGD sgd({&table.weight}, {.learning_rate = 1});
  const Tensor row = table.weight.rows(Ids32{2});
  EXPECT_ERROR_WITH(std::runtime_error, "row 1 is damaged", step(sgd, table.weight, {1, 2}));
  EXPECT_THROW(table.weight.rows(Ids32{0, 1}), std::runtime_error);
  EXPECT_EQ(table.weight.rows(Ids32{2}), row);
}

// Counted, as times would depend on the machine: bench_table_file measures them.
TEST_F(TableFileOptimizers, CostTheRowsLookedUpWhateverTheTable) {
  constexpr std::size_t kLookups = 100;
  std::vector<std::uint64_t> visited, journal_bytes;
  for (const std::size_t rows :
       {std::size_t{1000}, std::size_t{100'000}, std::size_t{100'000'000}}) {
    const auto path = folder_ / concat(rows);
    TableFile file(path, {.rows = rows, .width = 64, .states = 2});
    Embedding table(file);
    AdamW adamw({&table.weight});
    for (int step = 0; step < 3; ++step) {
      Ids32 ids;
      for (std::size_t i = 0; i < kLookups; ++i)
        ids.push_back(static_cast<std::int32_t>(i * (rows / kLookups)));
      adamw.zero_grad();
      Tape tape;
      tape.backward(sum(table.forward(tape, to_ids(ids))));
      adamw.step();
    }
    EXPECT_EQ(file.rows_stored(), kLookups);
    visited.push_back(adamw.rows_visited());
    journal_bytes.push_back(std::filesystem::file_size(path.string() + ".undo-0"));
    file.checkpoint();
    EXPECT_LT(std::filesystem::file_size(path.string() + ".undo-1"), 1000);
  }
  EXPECT_EQ(visited, std::vector<std::uint64_t>(3, visited[0]));
  EXPECT_EQ(journal_bytes, std::vector<std::uint64_t>(3, journal_bytes[0]));
}

TEST_F(TableFileOptimizers, AreRefusedADenseGradientInALayer) {
  TableFile file(folder_ / "words.table", {.rows = 4, .width = 2});
  EXPECT_THROW(Embedding(file, {.dense_gradient = true}), std::invalid_argument);
  EXPECT_INVALID(
      "EmbeddingBag: the gradient of a table in a file cannot be dense: " + file.path().string(),
      EmbeddingBag(file, {.dense_gradient = true}));
}

TEST_F(TableFileOptimizers, TrainBagsAsInMemoryBitForBit) {
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    const auto path = folder_ / concat(static_cast<int>(mode));
    TableFile file(path, {.rows = 12, .width = 5, .states = 2, .seed = 3});
    const EmbeddingBagOptions options{.mode = mode, .padding_idx = 2, .max_norm = 2};
    EmbeddingBag in_file(file, options);
    Ids32 all(12);
    std::iota(all.begin(), all.end(), 0);
    EmbeddingBag in_memory(in_file.weight.rows(all), options);
    AdamW of_file(in_file.parameters(), {.learning_rate = 0.1});
    AdamW of_memory(in_memory.parameters(), {.learning_rate = 0.1});
    for (std::int32_t step = 0; step < 20; ++step) {
      Ids32 ids;
      for (std::int32_t i = 0; i < 7; ++i) ids.push_back((step * step + i * (i + 1)) % 12);
      const auto train = [&](EmbeddingBag& bag, AdamW& optimizer) {
        optimizer.zero_grad();
        Tape tape;
        const Variable y = bag.forward(tape, {.ids = to_ids(ids), .offsets = Ids{0, 2, 2, 5}});
        tape.backward(sum(y * y * y));
        optimizer.step();
      };
      train(in_file, of_file);
      train(in_memory, of_memory);
      ASSERT_EQ(in_file.weight.rows(all), in_memory.weight.value()) << step;
    }
  }
}

}  // namespace
