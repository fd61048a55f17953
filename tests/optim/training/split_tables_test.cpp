// Tables that are split over ranks: the same bits on any number of ranks, and as whole tables.

#include "tests/support/thread_ranks.hpp"
#include "tests/test.hpp"

namespace {

constexpr std::size_t kSplitRows = 97;
constexpr std::size_t kSplitWidth = 6;

// Looks up rows of one table alone and of another in bags.
class TwoTables : public Model {
 public:
  TwoTables(Random& random, ProcessGroup* split, const std::optional<double>& max_norm)
      : words(*this, "words", kSplitRows, kSplitWidth, random,
              EmbeddingOptions{.padding_idx = 96, .split = split, .max_norm = max_norm}),
        bags(*this, "bags", kSplitRows, kSplitWidth, random,
             EmbeddingOptions{.mode = BagMode::kSum, .split = split}),
        head(*this, "head", 2 * kSplitWidth, kSplitRows, random) {}

  Variable loss(Tape& tape, const Batch& batch) override {
    const Ids& ids = batch.inputs();
    const Variable x = reshape(words.forward(tape, ids), {ids.size(), kSplitWidth});
    Ids flat = ids;
    flat.reshape(Ids::shape_type{ids.size(), 1});
    const Variable y = concatenate({x, bags.forward(tape, {flat})}, 1);
    Ids targets = batch.targets();
    targets.reshape(Ids::shape_type{targets.size()});
    return cross_entropy(head.forward(y), targets);
  }
  double weight(const Batch& batch) const override {
    return static_cast<double>(batch.targets().size());
  }
  void read_ahead(const Batch& batch) override {
    words.read_ahead(batch.inputs());
    bags.read_ahead(batch.inputs());
  }

  Part<Embedding> words;
  Part<EmbeddingBag> bags;
  Part<Linear> head;
};

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const std::vector<Parameter*>&)>;

template <class O>
MakeOptimizer made(const typename O::Options& options) {
  return
      [options](const std::vector<Parameter*>& all) { return std::make_unique<O>(all, options); };
}

struct SplitCase {
  const char* name;
  MakeOptimizer optimizer;
  double clip = 0;
  std::size_t accumulate = 1;
  bool cosine = false;
  std::optional<double> max_norm = std::nullopt;
};

const std::vector<SplitCase>& split_cases() {
  static const std::vector<SplitCase> all{
      {"SGD", made<SGD>({.learning_rate = 0.5})},
      {"momentum and decay, accumulated",
       made<SGD>({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}), 0, 2},
      {"AdamW, clipped, with a schedule", made<AdamW>({.learning_rate = 0.01, .weight_decay = 0.1}),
       0.1, 1, true},
      {"Adam with decay in the gradient", made<Adam>({.learning_rate = 0.01, .weight_decay = 0.1}),
       1},
      {"Adagrad, clipped", made<Adagrad>({.learning_rate = 0.1}), 0.5},
      {"touched rows alone", made<Adam>({.rows = RowUpdates::kTouchedOnly}), 0.5},
      {"max_norm", made<SGD>({.learning_rate = 0.5, .momentum = 0.9}), 0, 1, false, 2.0}};
  return all;
}

Ids split_text(std::size_t count) {
  Random random(4);
  Ids ids = Ids::from_shape({count});
  for (std::int32_t& id : ids) {
    const std::uint32_t bits = random.bits();
    id = static_cast<std::int32_t>(bits % 8 == 0 ? bits / 8 % kSplitRows : bits / 8 % 12);
  }
  return ids;
}

struct SplitResult {
  std::vector<std::vector<real>> values;  // of all rows of all parameters
  std::vector<double> losses;
  std::vector<std::vector<std::int32_t>> seen;  // with a gradient, by the first rank
};

void expect_same(const SplitResult& result, const SplitResult& expected) {
  EXPECT_EQ(result.values, expected.values);
  EXPECT_EQ(result.losses, expected.losses);
  EXPECT_EQ(result.seen, expected.seen);
}

// What a run has: all of its parts. `split` says whether tables are.
struct SplitRun {
  SplitRun(const SplitCase& of, std::size_t shards, ProcessGroup* ranks, bool split)
      : random(1),
        model(random, split ? ranks : nullptr, of.max_norm),
        optimizer(of.optimizer(model.parameters())),
        windows(split_text(300), {.context = 5, .stride = 4}),
        loader(windows, {.batch = 9, .shuffle = true, .seed = 3}),
        validation(windows, {.batch = 12}),
        schedule(*optimizer, of.cosine ? Schedule::cosine({.steps = 20}) : Schedule::constant()),
        run({.model = model,
             .optimizer = *optimizer,
             .loader = loader,
             .random = random,
             .schedule = &schedule,
             .validation = &validation,
             .clip_norm = of.clip,
             .accumulate = of.accumulate,
             .shards = shards,
             .ranks = ranks,
             .compare_every = 3}) {}

  Random random;
  TwoTables model;
  std::unique_ptr<Optimizer> optimizer;
  TokenWindows windows;
  DataLoader loader;
  DataLoader validation;
  LearningRateSchedule schedule;
  TrainingRun run;
};

// On the first rank, notes what observers see: gradients of all rows, and at the end all values.
struct Noting : RunObserver {
  bool watches_gradients() const override { return true; }
  void before_update(const TrainingRun& run) override {
    if (!run.is_first_rank()) return;
    for (const Parameter* parameter : run.parts().optimizer.parameters())
      if (parameter->gradient().is_rows())
        result.seen.push_back(parameter->gradient().rows().indices());
  }
  void at_end(const TrainingRun& run) override {
    run.meet();
    if (!run.is_first_rank()) return;
    result.values.clear();
    result.losses.clear();
    std::vector<std::int32_t> ids(kSplitRows);
    std::iota(ids.begin(), ids.end(), 0);
    for (const Parameter* parameter : run.parts().optimizer.parameters()) {
      const Tensor values =
          parameter->shape().size() == 2 ? parameter->rows(ids) : parameter->copy();
      result.values.emplace_back(values.begin(), values.end());
    }
    for (const TrainingRecord& record : run.history())
      result.losses.insert(result.losses.end(),
                           {record.training_loss, record.validation_loss.value_or(0)});
  }
  SplitResult result;
};

SplitResult trained(const SplitCase& of, std::size_t shards, ProcessGroup* ranks, bool split,
                    std::size_t epochs = 2) {
  SplitRun made(of, shards, ranks, split);
  Noting noting;
  made.run.observe(noting);
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) made.run.run_epoch();
  return noting.result;
}

TEST(SplitTablesOfATrainingRun, GiveTheBitsOfWholeTablesOnAnyNumberOfRanks) {
  for (const SplitCase& each : split_cases()) {
    SCOPED_TRACE(each.name);
    const SplitResult expected = trained(each, 4, nullptr, false);
    EXPECT_EQ(expected.losses.size(), 4U);
    SingleProcess alone;
    expect_same(trained(each, 4, &alone, true), expected);
    for (std::size_t count = 1; count <= 4; ++count) {
      SCOPED_TRACE(std::to_string(count) + " ranks");
      SplitResult result;
      run_ranks(count, [&](ProcessGroup& ranks) {
        SplitResult mine = trained(each, 4, &ranks, true);
        if (ranks.rank() == 0) result = std::move(mine);
      });
      expect_same(result, expected);
    }
  }
}

// Ranks that share a folder, and ranks each of which has a folder of its own, but for the file of
// the first one.
TEST(SplitTablesOfATrainingRun, GoOnFromACheckpointOfAnotherNumberOfRanks) {
  const SplitCase& of = split_cases()[2];
  const SplitResult expected = trained(of, 4, nullptr, false, 2);
  for (const bool shared : {true, false})
    for (const std::array<std::size_t, 2>& counts :
         std::vector<std::array<std::size_t, 2>>{{2, 2}, {2, 3}, {3, 1}, {1, 4}, {4, 2}}) {
      SCOPED_TRACE(std::to_string(counts[0]) + " ranks, then " + std::to_string(counts[1]));
      if (!shared && counts[1] < counts[0]) continue;  // nobody would have all of it
      const TemporaryFolder folder;
      const auto path_of = [&, is_shared = shared](std::size_t rank) {
        const std::filesystem::path own = folder / (is_shared ? "all" : std::to_string(rank));
        std::filesystem::create_directories(own);
        return own / "run";
      };
      for (const std::size_t steps : {2, 5})  // the second one replaces the first
        run_ranks(counts[0], [&](ProcessGroup& ranks) {
          SplitRun made(of, 4, &ranks, true);
          if (steps == 5)
            made.run.load_state_dict(
                with_split_rows(read_safetensors(path_of(0)), path_of(ranks.rank()), &ranks));
          made.run.train(steps);
          write_split_checkpoint(path_of(ranks.rank()), made.run.state_dict(),
                                 made.model.parameters(), ranks);
        });
      std::size_t files = 0;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
        files += entry.is_regular_file() ? 1 : 0;
      EXPECT_EQ(files, counts[0] + 1);
      SplitResult result;
      run_ranks(counts[1], [&](ProcessGroup& ranks) {
        SplitRun made(of, 4, &ranks, true);
        Noting noting;
        made.run.observe(noting);
        made.run.load_state_dict(
            with_split_rows(read_safetensors(path_of(0)), path_of(ranks.rank()), &ranks));
        while (made.run.epochs() < 2) made.run.run_epoch();
        if (ranks.rank() == 0) result = noting.result;
      });
      EXPECT_EQ(result.values, expected.values);
      EXPECT_EQ(result.losses, expected.losses);
    }
}

TEST(SplitTablesOfATrainingRun, AreMadeWholeByAProcessAlone) {
  const SplitCase& of = split_cases()[1];
  const TemporaryFolder folder;
  run_ranks(3, [&](ProcessGroup& ranks) {
    SplitRun made(of, 4, &ranks, true);
    made.run.train(3);
    write_split_checkpoint(folder / "run", made.run.state_dict(), made.model.parameters(), ranks);
  });
  const SplitResult expected = trained(of, 4, nullptr, false);
  SplitRun whole(of, 4, nullptr, false);
  Noting noting;
  whole.run.observe(noting);
  whole.run.load_state_dict(with_split_rows(read_safetensors(folder / "run"), folder / "run"));
  while (whole.run.epochs() < 2) whole.run.run_epoch();
  EXPECT_EQ(noting.result.values, expected.values);
}

TEST(SplitTablesOfATrainingRun, GoOnFromTheCheckpointOfAProcessAlone) {
  for (const std::size_t number : {1, 2, 3}) {
    const SplitCase& of = split_cases()[number];
    SCOPED_TRACE(of.name);
    SplitRun alone(of, 4, nullptr, false);
    alone.run.train(3);
    const Checkpoint saved = alone.run.state_dict();
    SplitResult result;
    run_ranks(3, [&](ProcessGroup& ranks) {
      SplitRun made(of, 4, &ranks, true);
      Noting noting;
      made.run.observe(noting);
      made.run.load_state_dict(with_split_rows(saved, "run", &ranks, made.model.parameters()));
      while (made.run.epochs() < 2) made.run.run_epoch();
      if (ranks.rank() == 0) result = noting.result;
    });
    EXPECT_EQ(result.values, trained(of, 4, nullptr, false).values);
  }
}

// The rows of each rank are in a file of its own.
TEST(SplitTablesOfATrainingRun, InFilesGiveTheBitsOfOneFile) {
  const TemporaryFolder folder;
  const auto trained_on = [&](const std::string& name, ProcessGroup* ranks) {
    TableFile file(folder / name, {.rows = kSplitRows, .width = 4, .states = 1, .seed = 5});
    auto rows = file_rows(file);
    if (ranks != nullptr) rows = std::make_unique<SplitRows>(*ranks, file.shape(), std::move(rows));
    class OneTable : public Model {
     public:
      OneTable(std::unique_ptr<ParameterStorage> table, Random& random)
          : words(*this, "words", std::move(table)), head(*this, "head", 4, kSplitRows, random) {}
      Variable loss(Tape& tape, const Batch& batch) override {
        return cross_entropy(head.forward(words.forward(tape, batch.inputs())), batch.targets());
      }
      void read_ahead(const Batch& batch) override { words.read_ahead(batch.inputs()); }
      Part<Embedding> words;
      Part<Linear> head;
    };
    Random random(1);
    OneTable model(std::move(rows), random);
    SGD optimizer(model.parameters(),
                  {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
    DataLoader loader(TokenWindows(split_text(300), {.context = 5, .stride = 4}), {.batch = 9});
    TrainingRun run({.model = model,
                     .optimizer = optimizer,
                     .loader = loader,
                     .random = random,
                     .shards = 3,
                     .ranks = ranks});
    Noting noting;
    run.observe(noting);
    run.train(9);
    return std::pair(noting.result.values, file.rows_stored());
  };
  const auto expected = trained_on("whole", nullptr);
  std::vector<std::uint64_t> stored(3);
  run_ranks(3, [&](ProcessGroup& ranks) {
    const auto found = trained_on(std::to_string(ranks.rank()), &ranks);
    stored[ranks.rank()] = found.second;
    if (ranks.rank() == 0) {
      EXPECT_EQ(found.first, expected.first);
    }
  });
  EXPECT_EQ(stored[0] + stored[1] + stored[2], expected.second);
}

TEST(SplitTablesOfATrainingRun, RefuseWhatTheyCannotDo) {
  run_ranks(2, [](ProcessGroup& ranks) {
    Random random(1);
    Embedding table(20, 4, random, EmbeddingOptions{.split = &ranks});
    EXPECT_ERROR_WITH(std::logic_error, "parts on 2 ranks", table.weight.value());
    EXPECT_ERROR_WITH(std::logic_error, "rows of a split table cannot be replaced",
                      table.weight.assign_rows(std::vector{1}, zeros({1, 4})));
    Tape tape;
    Ids ids = Ids::from_shape({1});
    ids.data()[0] = 3;
    EXPECT_ERROR_WITH(std::logic_error, "the model's read_ahead() must announce",
                      table.forward(tape, ids));
    EXPECT_ERROR_WITH(
        std::invalid_argument, "a table split over ranks cannot be dense",
        Embedding(20, 4, random, EmbeddingOptions{.dense_gradient = true, .split = &ranks}));
    EXPECT_ERROR_WITH(std::invalid_argument, "expected [10, 4]",
                      SplitRows(ranks, {20, 4}, values_in_memory(zeros({9, 4}))));
    EXPECT_ERROR_WITH(std::invalid_argument, "expected [10, 4]",
                      SplitRows(ranks, {20, 4}, values_in_memory(zeros({20, 4}))));
    TwoTables model(random, &ranks, std::nullopt);
    SGD of_model(model.parameters(), {.learning_rate = 0.1});
    DataLoader loader(TokenWindows(split_text(20), {.context = 5, .stride = 5}), {.batch = 2});
    EXPECT_ERROR_WITH(
        std::invalid_argument, "split over 2 ranks, but the run has 1",
        TrainingRun({.model = model, .optimizer = of_model, .loader = loader, .random = random}));
    SGD optimizer({&table.weight}, {.learning_rate = 0.1});
    table.weight.add_gradient(RowGradient({20, 4}, {3}, zeros({1, 4})));
    EXPECT_ERROR_WITH(std::logic_error, "a TrainingRun brings it there", optimizer.step());
  });
  std::string message;
  try {
    run_ranks(2, [](ProcessGroup& ranks) {
      Random random(1);
      Embedding(20 + ranks.rank(), 4, random, EmbeddingOptions{.split = &ranks});
    });
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  EXPECT_HAS(message, "has a table [");
}

TEST(SplitTablesOfATrainingRun, RefuseACheckpointWithoutAllParts) {
  const SplitCase& of = split_cases()[0];
  const TemporaryFolder folder;
  run_ranks(2, [&](ProcessGroup& ranks) {
    SplitRun made(of, 2, &ranks, true);
    write_split_checkpoint(folder / "run", made.run.state_dict(), made.model.parameters(), ranks);
  });
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().string().ends_with("-1")) std::filesystem::remove(entry.path());
  EXPECT_ERROR_WITH(std::runtime_error, "is missing on all ranks: it has the rows of rank 1 of 2",
                    with_split_rows(read_safetensors(folder / "run"), folder / "run"));
}

TEST(SplitTablesOfATrainingRun, BeginWithTheNumbersOfAWholeTable) {
  constexpr std::size_t kRows = 5000;  // drawn in several pieces
  Random of_whole(1);
  const Embedding whole(kRows, 3, of_whole);
  run_ranks(3, [&](ProcessGroup& ranks) {
    Random random(1);
    Embedding table(kRows, 3, random, EmbeddingOptions{.split = &ranks});
    const IndexRange mine = rows_of_rank(kRows, ranks.rank(), 3);
    std::vector<std::int32_t> rows(mine.size());
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(mine.begin));
    EXPECT_EQ(table.weight.local().value(), whole.weight.rows(rows));
  });
}

TEST(SplitTablesOfATrainingRun, LeaveOtherParametersOfTheSameLastNameWhole) {
  const TemporaryFolder folder;
  run_ranks(2, [&](ProcessGroup& ranks) {
    Random random(1);
    Embedding words(20, 4, random, EmbeddingOptions{.split = &ranks});
    words.weight.rename("words.weight");
    Parameter other("in.words.weight", zeros({3, 4}));
    Checkpoint state;
    state.put("model.words.weight", words.weight.saved());
    state.put("model.in.words.weight", other.copy());
    const std::vector<Parameter*> parameters{&words.weight, &other};
    write_split_checkpoint(folder / "run", state, parameters, ranks);
    const Checkpoint read =
        with_split_rows(read_safetensors(folder / "run"), folder / "run", &ranks);
    EXPECT_EQ(read.tensor("model.in.words.weight", {3, 4}), other.value());
    EXPECT_EQ(read.tensor("model.words.weight", {10, 4}), words.weight.local().value());
  });
}

TEST(SplitTablesOfATrainingRun, ReplaceNoFilesButTheirOwn) {
  const TemporaryFolder folder;
  for (const char* name : {"run.part-of-a-book", "run.part-12-34-0", "run.part-56-78-0", "other"})
    write_file(folder / name, "text");
  remove_parts(folder / "run", "56-78");
  EXPECT_TRUE(file_exists(folder / "run.part-of-a-book"));
  EXPECT_FALSE(file_exists(folder / "run.part-12-34-0"));
  EXPECT_TRUE(file_exists(folder / "run.part-56-78-0"));
}

}  // namespace
