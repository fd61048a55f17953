// Optimizers of tables in files: errors, costs, and restoring checkpoints. (exact_rows_test.cpp
// compares the values with tables in memory.)

#include "tests/optim/optimizers.hpp"

namespace {

// A table [4, 2] in a file.
struct Words {
  explicit Words(const std::filesystem::path& path, std::size_t slots = 1)
      : file(std::filesystem::exists(path)
                 ? TableFile(path)
                 : TableFile(path, {.rows = 4, .width = 2, .slots = slots})),
        table(file) {}

  // Makes a step with a gradient of ones for these rows.
  void step(Optimizer& optimizer, const Ids32& ids) {
    optimizer.zero_grad();
    weight.add_gradient(RowGradient({4, 2}, ids, full({ids.size(), 2}, 1)));
    optimizer.step();
  }
  Tensor rows() const { return weight.rows(all_rows(4)); }

  TableFile file;
  Embedding table;
  Parameter& weight = table.weight;
};

class TableFileOptimizers : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_ / "words.table";
};

TEST_F(TableFileOptimizers, NeverLoadTheWholeTable) {
  Words words(path_);
  Parameter& weight = words.weight;
  SGD sgd({&weight}, {.momentum = 0.9});
  words.step(sgd, {1});
  EXPECT_ERROR_WITH(
      std::logic_error,
      "weight: value() needs all values in memory, but the rows of this table are in ",
      weight.value());
  EXPECT_THROW(weight.copy(), std::logic_error);
  EXPECT_THROW(weight.mutable_values(), std::logic_error);
  EXPECT_THROW(weight.assign(zeros({4, 2})), std::logic_error);
  EXPECT_THROW(words.table.state_dict(), std::logic_error);  // rows changed since the checkpoint
  const Tensor rows = words.rows();
  sgd.zero_grad();
  weight.add_gradient(zeros({4, 2}));
  EXPECT_ERROR_WITH(std::invalid_argument,
                    "SGD: the gradient of weight is dense, which needs all rows in memory, but the "
                    "rows of weight are in ",
                    sgd.step());
  EXPECT_EQ(words.rows(), rows);

  TableFile other(folder_ / "other.table", {.rows = 4, .width = 2});
  EXPECT_THROW(Embedding(other, {.dense_gradient = true}), std::invalid_argument);
  EXPECT_INVALID("EmbeddingBag: got a table in " + other.path().string() +
                     ", expected one in memory for dense_gradient",
                 EmbeddingBag(other, {.dense_gradient = true}));
}

// The deferred steps are in the optimizer's state. Without this state, stale rows cannot be read.
TEST_F(TableFileOptimizers, StaleRowsNeedTheOptimizerState) {
  const SgdOptions touched{.momentum = 0.9, .rows = RowUpdates::kTouchedOnly};
  for (const AnyOptions& options :
       {AnyOptions(kMomentum), AnyOptions(AdamWOptions()), AnyOptions(touched)}) {
    const TemporaryFolder folder;
    Tensor rows;
    StateDict model, state;
    for (const bool again : {false, true}) {
      Words words(folder / "words", 2);
      const auto optimizer = make_optimizer(options, {&words.weight});
      if (again) {
        words.table.load_state_dict(model);
        if (options.index() != 0 || std::get<0>(options).rows == RowUpdates::kExact) {
          EXPECT_ERROR_WITH(std::logic_error, "have deferred updates of an optimizer",
                            words.rows());
          EXPECT_THROW(words.step(*optimizer, {0}), std::logic_error);
          EXPECT_THROW(words.weight.assign_rows(Ids32{1}, zeros({1, 2})), std::logic_error);
        }
        optimizer->load_state_dict(state);
        EXPECT_EQ(words.rows(), rows);
      } else {
        for (int i = 0; i < 10; ++i) words.step(*optimizer, {i % 3});
        words.file.checkpoint();
        rows = words.rows();
        model = words.table.state_dict();
        state = optimizer->state_dict();
      }
    }
  }
}

TEST_F(TableFileOptimizers, RowsAreUpToDateAfterDestruction) {
  Words words(path_);
  auto sgd = std::make_unique<SGD>(std::vector<Parameter*>{&words.weight}, kMomentum);
  for (int i = 0; i < 5; ++i) words.step(*sgd, {i % 3});
  const Tensor rows = words.rows();
  sgd.reset();
  EXPECT_EQ(words.rows(), rows);
  SGD other({&words.weight}, kMomentum);  // would have to bring all rows up to date
  EXPECT_ERROR_WITH(std::logic_error, "have deferred updates of an optimizer",
                    words.step(other, {0}));
  EXPECT_EQ(words.rows(), rows);
}

// A checkpoint with stale rows is useless if their deferred steps are lost.
TEST_F(TableFileOptimizers, CheckpointThrowsIfDeferredStepsAreLost) {
  const auto make = [](Words& words) {
    return std::make_unique<SGD>(std::vector<Parameter*>{&words.weight}, kMomentum);
  };
  Tensor saved;
  StateDict model, state;
  {
    Words words(path_);
    auto sgd = make(words);
    for (int i = 0; i < 5; ++i) words.step(*sgd, {i % 3});
    words.file.checkpoint();
    saved = words.rows();
    const StateDict deferred = words.table.state_dict();
    state = sgd->state_dict();
    sgd.reset();
    words.file.checkpoint();  // nothing has changed
    model = words.table.state_dict();
    EXPECT_EQ(model.string("weight"), deferred.string("weight"));
    words.weight.assign_rows(Ids32{1}, full({1, 2}, 3));
    const Tensor rows = words.rows();
    EXPECT_ERROR_WITH(std::logic_error, "deferred updates of an optimizer that was destroyed",
                      words.file.checkpoint());
    EXPECT_ERROR_WITH(std::logic_error, "deferred updates of an optimizer that was destroyed",
                      words.table.state_dict());
    EXPECT_EQ(words.rows(), rows);
  }
  for (const bool loads : {false, true}) {  // loading is optional: the file is at this checkpoint
    Words words(path_);
    auto sgd = make(words);
    if (loads) words.table.load_state_dict(model);
    sgd->load_state_dict(state);
    EXPECT_EQ(words.rows(), saved);
    sgd.reset();
    EXPECT_EQ(words.table.state_dict().string("weight"), model.string("weight"));
    sgd = make(words);
    words.table.load_state_dict(model);
    sgd->load_state_dict(state);
    words.step(*sgd, {3});
    words.file.checkpoint();
    sgd.reset();
    EXPECT_ERROR_WITH(std::logic_error, "destroyed", words.table.state_dict());
    words.table.load_state_dict(model);
    EXPECT_NO_THROW(words.table.state_dict());
  }
}

TEST_F(TableFileOptimizers, CheckpointThrowsIfTheLayerIsDestroyedFirst) {
  TableFile file(path_, {.rows = 4, .width = 2, .slots = 1});
  const std::string id = file.checkpoint_id();
  auto table = std::make_unique<Embedding>(file);
  SGD sgd({&table->weight}, kMomentum);
  for (const std::int32_t row : {1, 2}) {
    sgd.zero_grad();
    table->weight.add_gradient(RowGradient({4, 2}, {row}, full({1, 2}, 1)));
    sgd.step();
  }
  table.reset();
  EXPECT_ERROR_WITH(std::logic_error, "that was destroyed", file.checkpoint());
  file.restore(id);
  EXPECT_NO_THROW(file.checkpoint());
}

TEST_F(TableFileOptimizers, ThrowIfTheFileHasTooFewSlots) {
  Words words(path_);
  Parameter& weight = words.weight;
  AdamW adamw({&weight});
  weight.add_gradient(RowGradient({4, 2}, {0}, full({1, 2}, 1)));
  EXPECT_ERROR_WITH(std::invalid_argument, "AdamW: needs 2 slots for each row, but", adamw.step());
  EXPECT_EQ(words.file.named_slots(), 0);
  EXPECT_ERROR_WITH(std::invalid_argument, "expected 0 for a table in a file",
                    Adagrad adagrad({&weight}, AdagradOptions{.initial_accumulator = 0.1});
                    adagrad.step());
  SGD sgd({&weight}, {.momentum = 0.9});
  sgd.step();
}

TEST_F(TableFileOptimizers, RejectRowsOfAnotherOptimizer) {
  Words words(path_);
  SGD sgd({&words.weight}, {.momentum = 0.9});
  words.step(sgd, {0});
  words.file.modify(Ids32{2}).note(2) = 9;
  EXPECT_ERROR_WITH(std::runtime_error,
                    ": row 2 is at step 9, but the history of SGD ends at step 1",
                    words.step(sgd, {2}));
}

// A new optimizer ignores the slots of the previous one, as for tables in memory.
TEST_F(TableFileOptimizers, StartWithZeroState) {
  Words words(path_);
  for (int again = 0; again < 2; ++again) {
    const Tensor before = words.rows();
    Adagrad adagrad({&words.weight}, {.learning_rate = 1});
    words.step(adagrad, {0});
    EXPECT_NEAR(before(0, 0) - words.rows()(0, 0), 1, 1e-5);
  }
  SGD sgd({&words.weight}, {.learning_rate = 1, .momentum = 0.5});
  const Tensor before = words.rows();
  for (int i = 0; i < 2; ++i) words.step(sgd, {1});
  EXPECT_EQ(words.rows()(0, 0), before(0, 0));  // the momentum of row 0 is zero
}

TEST_F(TableFileOptimizers, RejectStatesOfOtherCheckpoints) {
  for (const RowUpdates updates : {RowUpdates::kExact, RowUpdates::kTouchedOnly}) {
    Words words(folder_ / concat(static_cast<int>(updates)));
    SGD sgd({&words.weight}, {.momentum = 0.9, .rows = updates});
    std::vector<StateDict> states;
    for (int i = 0; i < 3; ++i) {
      words.step(sgd, {0});
      words.file.checkpoint();
      states.push_back(sgd.state_dict());
    }
    const Tensor rows = words.rows();
    EXPECT_ERROR_WITH(std::invalid_argument, "load the model's state first",
                      sgd.load_state_dict(states[0]));
    EXPECT_EQ(words.rows(), rows);
    Words other(folder_ / concat("other", static_cast<int>(updates)));  // has no slots yet
    SGD of_other({&other.weight}, {.momentum = 0.9, .rows = updates});
    EXPECT_ERROR_WITH(
        std::invalid_argument, "has no slot 'momentum'",
        of_other.load_state_dict(with(states[0], "weight.momentum", other.file.checkpoint_id())));
  }
}

// If a table cannot be restored, all tables keep their rows and deferred steps.
TEST_F(TableFileOptimizers, RestoreAllTablesOfALayerOrNone) {
  struct TwoTables : Layer {
    TwoTables(TableFile& one, TableFile& two)
        : first(*this, "first", file_rows(one)), second(*this, "second", file_rows(two)) {}
    Parameter first, second;
  };
  TableFile one(folder_ / "one.table", {.rows = 4, .width = 2, .slots = 1});
  TableFile two(folder_ / "two.table", {.rows = 4, .width = 2, .slots = 1});
  TwoTables layer(one, two);
  SGD sgd(layer.parameters(), {.momentum = 0.9});
  std::vector<StateDict> states;
  for (const std::int32_t row : {0, 1}) {
    sgd.zero_grad();
    for (Parameter* table : layer.parameters()) table->add_gradient(gradient({4, 2}, {row}));
    sgd.step();
    one.checkpoint();
    two.checkpoint();
    states.push_back(layer.state_dict());
  }
  const auto rows = [&] {
    return std::pair(layer.first.rows(all_rows(4)), layer.second.rows(all_rows(4)));
  };
  const auto before = rows();
  std::string journal = read_file(folder_ / "two.table.undo-1");
  journal.back() = static_cast<char>(journal.back() ^ 1);
  write_file(folder_ / "two.table.undo-1", journal);
  EXPECT_THROW(layer.load_state_dict(states[0]), std::runtime_error);
  EXPECT_TRUE(bits_of(layer.state_dict()) == bits_of(states[1]));
  EXPECT_EQ(rows(), before);
  layer.load_state_dict(states[1]);
}

TEST_F(TableFileOptimizers, DamagedRowThrowsBeforeAnythingChanges) {
  {
    Words words(path_);
    words.file.modify(Ids32{1, 2});
    words.file.checkpoint();
  }
  std::string contents = read_file(path_);
  const std::size_t stride = (contents.size() - 4096) / 4;
  contents[4096 + stride] ^= 1;  // the step of row 1
  write_file(path_, contents);
  Words words(path_);
  SGD sgd({&words.weight}, {.learning_rate = 1});
  const Tensor row = words.weight.rows(Ids32{2});
  EXPECT_ERROR_WITH(std::runtime_error, "row 1 is damaged", words.step(sgd, {1, 2}));
  EXPECT_THROW(words.rows(), std::runtime_error);
  EXPECT_EQ(words.weight.rows(Ids32{2}), row);
}

// Counts rows, because times depend on the machine. bench_table_file measures times.
TEST_F(TableFileOptimizers, StepCostDependsOnlyOnTheRowsLookedUp) {
  constexpr std::size_t kLookups = 100;
  std::set<std::pair<std::uint64_t, std::uint64_t>> costs;
  for (const std::size_t rows : {1000, 100'000, 100'000'000}) {
    const auto path = folder_ / concat(rows);
    TableFile file(path, {.rows = rows, .width = 64, .slots = 2});
    Embedding table(file);
    AdamW adamw({&table.weight});
    Ids32 ids;
    for (std::size_t i = 0; i < kLookups; ++i)
      ids.push_back(static_cast<std::int32_t>(i * (rows / kLookups)));
    for (int step = 0; step < 3; ++step) {
      adamw.zero_grad();
      Tape tape;
      tape.backward(sum(table.forward(tape, to_ids(ids))));
      adamw.step();
    }
    EXPECT_EQ(file.stored_rows(), kLookups);
    costs.emplace(adamw.rows_visited(), std::filesystem::file_size(path.string() + ".undo-0"));
    file.checkpoint();
    EXPECT_LT(std::filesystem::file_size(path.string() + ".undo-1"), 1000);
  }
  EXPECT_EQ(costs.size(), 1U);
}

TEST_F(TableFileOptimizers, BagsTrainAsInMemoryBitForBit) {
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    const auto path = folder_ / concat(static_cast<int>(mode));
    TableFile file(path, {.rows = 12, .width = 5, .slots = 2, .seed = 3});
    const EmbeddingBagOptions options{.mode = mode, .padding_idx = 2, .max_norm = 2};
    EmbeddingBag in_file(file, options);
    EmbeddingBag in_memory(in_file.weight.rows(all_rows(12)), options);
    AdamW adamw({&in_file.weight, &in_memory.weight}, {.learning_rate = 0.1});
    for (std::int32_t step = 0; step < 20; ++step) {
      Ids32 ids;
      for (std::int32_t i = 0; i < 7; ++i) ids.push_back((step * step + i * (i + 1)) % 12);
      adamw.zero_grad();
      for (EmbeddingBag* bag : {&in_file, &in_memory}) {
        Tape tape;
        const Variable y = bag->forward(tape, {.ids = to_ids(ids), .offsets = Ids{0, 2, 2, 5}});
        tape.backward(sum(y * y * y));
      }
      adamw.step();
      ASSERT_EQ(in_file.weight.rows(all_rows(12)), in_memory.weight.value()) << step;
    }
  }
}

}  // namespace
