// Checkpoints and errors of sharded tables. ranks_test compares sharded with whole tables.

#include "tests/optim/training/runs.hpp"

namespace {

// Saves a run on `before` ranks and resumes it on `after` ranks; 0 means one process with whole
// tables. Ranks share a folder, or each has its own but reads the first rank's file.
void expect_resumable_on(const RunCase& of, std::size_t before, std::size_t after, bool shared,
                         const std::string& expected) {
  const TemporaryFolder folder;
  const auto path_of = [&](std::size_t rank) {
    const std::filesystem::path own = folder / (shared ? "all" : std::to_string(rank));
    std::filesystem::create_directories(own);
    return own / "run";
  };
  const auto on = [](std::size_t count, const std::function<void(ProcessGroup*)>& body) {
    if (count == 0) return body(nullptr);
    run_ranks(count, [&](ProcessGroup& ranks) { body(&ranks); });
  };
  const auto load = [&](RunOf& made, ProcessGroup* ranks) {
    const std::filesystem::path own = path_of(ranks != nullptr ? ranks->rank() : 0);
    made.run.load_state_dict(with_sharded_rows(read_safetensors(path_of(0)), own,
                                               made.ranks ? &*made.ranks : nullptr,
                                               made.model->parameters()));
  };
  for (const std::size_t steps : {2, 5})  // the second checkpoint replaces the first
    on(before, [&](ProcessGroup* ranks) {
      RunOf made(of, {.slices = 4, .ranks = ranks, .sharded = true});
      if (steps == 5) load(made, ranks);
      made.run.train(steps);
      const StateDict state = made.run.state_dict();
      if (ranks == nullptr) return write_safetensors(path_of(0), state);
      write_sharded_checkpoint(path_of(ranks->rank()), state, *made.ranks,
                               made.model->parameters());
      for (const std::string& name : read_safetensors(path_of(0)).names())
        EXPECT_FALSE(name.ends_with("s.weight.lazy.checksum"))
            << name;  // a checksum of one rank's rows
    });
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, before + 1);
  on(after, [&](ProcessGroup* ranks) {
    RunOf made(of, {.slices = 4, .ranks = ranks, .sharded = true});
    RunOutcome outcome;
    made.run.add(outcome);
    load(made, ranks);
    made.run.train(15);
    if (ranks != nullptr && ranks->rank() > 0) return;
    EXPECT_TRUE(outcome.bits == expected);
  });
}

TEST(ShardedTablesOfATrainingRun, ResumeOnAnotherNumberOfRanks) {
  for (const char* name : {"momentum and decay, accumulated", "AdamW, clipped, with a schedule",
                           "Adam with decay in the gradient"}) {
    const RunCase& of = run_case(name);
    const std::string expected = outcome_of(of, {.slices = 4}, false);
    for (const std::array<std::size_t, 2>& counts : std::vector<std::array<std::size_t, 2>>{
             {2, 2}, {2, 3}, {3, 1}, {1, 4}, {4, 2}, {3, 0}, {0, 3}})
      for (const bool shared : {true, false}) {
        // In separate folders, no rank could read the parts of removed ranks.
        if (!shared && (counts[1] < counts[0] || counts[0] == 0)) continue;
        SCOPED_TRACE(concat(name, ": ", counts[0], " ranks, then ", counts[1]));
        expect_resumable_on(of, counts[0], counts[1], shared, expected);
      }
  }
}

TEST(ShardedTablesOfATrainingRun, RejectUnsupportedUse) {
  run_ranks(2, [](ProcessGroup& ranks) {
    Random random(1);
    ParallelTraining tables(ranks);
    const auto made_table = [&](const EmbeddingOptions& options) {
      return Embedding(20, 4, random, options).weight.shape();
    };
    Embedding table(20, 4, random, EmbeddingOptions{.tables = &tables});
    EXPECT_EQ(table.parameter_count(), 80U);
    EXPECT_ERROR_WITH(std::logic_error, "shards on 2 ranks", table.table().value());
    EXPECT_ERROR_WITH(std::logic_error, "rows of a sharded table cannot be replaced",
                      table.table().assign_rows(std::vector{1}, zeros({1, 4})));
    Tape tape;
    EXPECT_ERROR_WITH(std::logic_error, "weight: row 3 was not fetched",
                      table.forward(tape, Ids{3}));
    EXPECT_ERROR_WITH(std::invalid_argument,
                      "got a table in shards on 2 ranks, expected one in memory",
                      made_table({.dense_gradient = true, .tables = &tables}));
    EXPECT_ERROR_WITH(std::invalid_argument, "are in shards on 2 ranks",
                      initialize_as_gpt2(table, 1, random));
    EXPECT_TRUE(tables.find(table.weight) != nullptr && tables.find(table.table()) != nullptr);
    Parameter wrong("wrong", zeros({9, 4}));
    EXPECT_ERROR_WITH(std::invalid_argument, "expected [10, 4]", ShardedTable(ranks, wrong, 20));
    for (const std::size_t rows : {10, 20})
      EXPECT_INVALID(
          "Embedding: got a table with all rows, but `tables` keeps only some of them here; "
          "expected a new table, or a table file",
          Embedding(zeros({rows, 4}), {.tables = &tables}));
    Parameter number("number", scalar(1));
    EXPECT_INVALID("ShardedTable: the table has shape [], expected [rows, width]",
                   ShardedTable(ranks, number, 20));
    EXPECT_INVALID("ParallelTraining: weight is already sharded",
                   tables.whole_table(table.weight, 20, {}));
    RunOf made(kShardedCases.front(), {.slices = 2, .ranks = &ranks, .sharded = true});
    TrainingRunOptions options = made.run.options();
    options.slices = 1;
    EXPECT_INVALID("GradientExchange: 1 slices for 2 ranks, expected at least one per rank",
                   TrainingRun{options});
    options.slices = 2;
    options.ranks = nullptr;
    EXPECT_INVALID(
        "TrainingRun: words.weight is a sharded table, expected its ParallelTraining as "
        "TrainingRunOptions::ranks",
        TrainingRun{options});
    EXPECT_ERROR_WITH(std::invalid_argument, "has its rows in shards on 2 ranks, expected",
                      SGD({&table.table()}, {.learning_rate = 0.1}));
    const TableLookup looked_up = table.lookup_of(Ids{3});
    tables.fetch({&looked_up, 1});
    Tape alone;
    const Variable row = sum(table.forward(alone, Ids{3}));
    EXPECT_ERROR_WITH(std::logic_error, "its gradient has rows of other ranks",
                      alone.backward(row));
    constexpr std::uint64_t kOther = 99;
    if (ranks.rank() == 0) {
      ranks.all_gather(std::span(&kOther, 1));
    } else {
      EXPECT_ERROR_WITH(std::logic_error, "the first rank sent other messages",
                        tables.first_asks([] {}));
    }
    EXPECT_THROW(tables.first_asks([] { throw std::runtime_error("failed"); }), std::runtime_error);
    if (ranks.rank() > 0) {
      EXPECT_ERROR_WITH(std::logic_error, "expected only the first rank",
                        tables.first_asks([&] { tables.fetch({}); }));
    }
  });
  EXPECT_ERROR_WITH(std::runtime_error, "has a table of shape [",
                    run_ranks(2, [](ProcessGroup& ranks) {
                      Random random(1);
                      ParallelTraining tables(ranks);
                      Embedding(20 + ranks.rank(), 4, random, EmbeddingOptions{.tables = &tables});
                    }));
}

// A head tied to a shard would mix up classes, because the shard's first row may not be class 0.
TEST(ShardedTablesOfATrainingRun, RejectGradientsOfAShard) {
  struct Tied : TwoTables {
    using TwoTables::TwoTables;
    Variable loss(Tape& tape, const Batch& batch) override {
      return TwoTables::loss(tape, batch) + sum(tape.parameter(words.weight));
    }
  };
  EXPECT_ERROR_WITH(std::logic_error, "words.weight is a shard of a table",
                    run_ranks(2, [](auto& ranks) {
                      RunCase tied = kShardedCases.front();
                      tied.model = [](Random& random, TablePlacement* tables) {
                        return std::make_unique<Tied>(random, tables, 0, std::nullopt);
                      };
                      RunOf(tied, {.slices = 2, .ranks = &ranks, .sharded = true}).run.step();
                    }));
}

// Callbacks on the first rank can fetch rows of other ranks. The other ranks do not get these rows.
TEST(ShardedTablesOfATrainingRun, SendRowsThatTheFirstRankFetches) {
  run_ranks(3, [](ProcessGroup& ranks) {
    ParallelTraining tables(ranks);
    Random random(1), same(1);
    const Embedding whole(20, 4, same);
    Embedding table(20, 4, random, EmbeddingOptions{.tables = &tables});
    const TableLookup all{&table.table(), all_rows(20)};
    std::size_t together = 0;
    tables.first_asks([&] {
      if (ranks.rank() == 0) {
        tables.fetch({&all, 1});
        EXPECT_EQ(table.table().rows(all.ids), whole.weight.value());
      }
      tables.together([&] { together = ranks.all_gather_lists(std::string("here")).size(); });
    });
    EXPECT_EQ(together, 3U);
    if (ranks.rank() > 0) {
      EXPECT_ERROR_WITH(std::logic_error, "was not fetched", table.table().rows(all.ids));
    }
  });
}

TEST(ShardedTablesOfATrainingRun, RejectCheckpointsWithMissingParts) {
  const TemporaryFolder folder;
  run_ranks(2, [&](ProcessGroup& ranks) {
    RunOf made(run_case("momentum and decay, accumulated"),
               {.slices = 2, .ranks = &ranks, .sharded = true});
    made.run.train(2);
    write_sharded_checkpoint(folder / "run", made.run.state_dict(), *made.ranks,
                             made.model->parameters());
  });
  std::filesystem::path path;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().string().ends_with("-1")) path = entry.path();
  const auto refusal = [&] {
    return error_of<std::runtime_error>(
        [&] { with_sharded_rows(read_safetensors(folder / "run"), folder / "run"); });
  };
  const StateDict whole = read_safetensors(path);
  for (const std::string& name : whole.part("split.rows").names()) {
    write_safetensors(path, without(whole, "split.rows." + name));
    EXPECT_HAS(refusal(), ": its parts lack rows of " + name);
    if (!name.ends_with(".at")) continue;  // step counters of rows
    std::vector<std::int64_t> numbers = whole.integers(name);
    numbers.push_back(0);
    write_safetensors(path, with(whole, name, numbers));
    EXPECT_HAS(refusal(), concat(" has ", numbers.size(), " values, expected "));
  }
  std::filesystem::remove(path);
  EXPECT_HAS(refusal(), "is missing on all ranks: it has the rows of rank 1 of 2");
}

TEST(ShardedTablesOfATrainingRun, StartWithTheValuesOfAWholeTable) {
  constexpr std::size_t kRows = 5000;  // drawn in several pieces
  Random of_whole(1);
  const Embedding whole(kRows, 3, of_whole);
  run_ranks(3, [&](ProcessGroup& ranks) {
    Random random(1);
    ParallelTraining tables(ranks);
    const Embedding table(kRows, 3, random, EmbeddingOptions{.tables = &tables});
    const IndexRange mine = rows_of_rank(kRows, ranks.rank(), 3);
    std::vector<std::int32_t> rows(mine.size());
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(mine.begin));
    EXPECT_EQ(table.weight.value(), whole.weight.rows(rows));
  });
}

TEST(ShardedTablesOfATrainingRun, KeepParametersWithASimilarNameWhole) {
  const TemporaryFolder folder;
  run_ranks(2, [&](ProcessGroup& ranks) {
    Random random(1);
    ParallelTraining tables(ranks);
    Embedding words(20, 4, random, EmbeddingOptions{.tables = &tables});
    words.weight.rename("words.weight");
    Parameter other("in.words.weight", zeros({3, 4}));
    StateDict state;
    state.put("model.words.weight", words.weight.saved());
    state.put("model.in.words.weight", other.copy());
    const std::vector<Parameter*> parameters{&words.weight, &other};
    write_sharded_checkpoint(folder / "run", state, tables, parameters);
    const StateDict read =
        with_sharded_rows(read_safetensors(folder / "run"), folder / "run", &tables, parameters);
    EXPECT_EQ(read.tensor("model.in.words.weight", {3, 4}), other.value());
    EXPECT_EQ(read.tensor("model.words.weight", {10, 4}), words.weight.value());
  });
}

// If few rows have optimizer state or step counters, only these rows are saved.
TEST(ShardedTablesOfATrainingRun, SaveSparseStateOnAnyNumberOfRanks) {
  constexpr std::size_t kRows = 300'000, kWidth = 2;
  const TemporaryFolder folder;
  Tensor whole = zeros({kRows, kWidth});
  std::vector<std::int64_t> steps(kRows);
  for (const std::size_t row : {3, 125'000, 299'999}) {
    whole(row, 1) = static_cast<real>(row);
    steps[row] = static_cast<std::int64_t>(row + 1);
  }
  StateDict of_whole;
  put_table(of_whole, "weight.momentum", whole);
  put_integers(of_whole, "weight.lazy.at", steps);
  for (const std::size_t before : {0, 2})
    for (const std::size_t count : {before, std::size_t{3}}) {
      const auto in_ranks = [&](std::size_t ranks_in_all, const auto& call) {
        run_ranks(ranks_in_all, [&](ProcessGroup& ranks) {
          Random random(1);
          ParallelTraining tables(ranks);
          Embedding words(kRows, kWidth, random,
                          EmbeddingOptions{.init_std = 0, .tables = &tables});
          const std::vector<Parameter*> parameters{&words.weight};
          const IndexRange mine = rows_of_rank(kRows, ranks.rank(), ranks.size());
          Tensor own = empty({mine.size(), kWidth});
          std::copy_n(whole.data() + mine.begin * kWidth, own.size(), own.data());
          const auto first = steps.begin() + static_cast<std::ptrdiff_t>(mine.begin);
          const std::vector<std::int64_t> at(first,
                                             first + static_cast<std::ptrdiff_t>(mine.size()));
          call(own, at, parameters, tables);
        });
      };
      if (before > 0)
        in_ranks(before, [&](const Tensor& own, const auto& at, const auto& parameters,
                             const ParallelTraining& tables) {
          StateDict state;
          put_table(state, "weight.momentum", own);
          put_integers(state, "weight.lazy.at", at);
          EXPECT_TRUE(state.contains("weight.momentum.rows"));
          write_sharded_checkpoint(folder / "run", state, tables, parameters);
        });
      in_ranks(count > 0 ? count : 1, [&](const Tensor& own, const auto& at, const auto& parameters,
                                          const ParallelTraining& tables) {
        const StateDict file = before > 0 ? read_safetensors(folder / "run") : of_whole;
        const StateDict read = with_sharded_rows(file, folder / "run", &tables, parameters);
        EXPECT_EQ(get_table(read, "weight.momentum", own.shape()), own);
        EXPECT_EQ(get_integers(read, "weight.lazy.at", at.size()), at);
        for (const char* rows : {"weight.momentum.rows", "weight.lazy.at.rows"})
          EXPECT_EQ(read.contains(rows), tables.group().size() < 3) << rows;  // sparse above 1 MiB
      });
    }
}

// Saves a table of 20 rows from two ranks. Rank r fills its rows with value + r. `more` may add to
// the state.
void save_of_two_ranks(
    const std::filesystem::path& path, real value, std::size_t steps,
    const std::function<void(StateDict&)>& more = [](StateDict&) {}) {
  run_ranks(2, [&](ProcessGroup& ranks) {
    Random random(1);
    ParallelTraining tables(ranks);
    const Embedding words(20, 4, random, EmbeddingOptions{.tables = &tables});
    StateDict state;
    state.put("model.weight", full({10, 4}, value + static_cast<real>(ranks.rank())));
    state.put("steps", steps);
    more(state);
    write_sharded_checkpoint(path, state, tables, words.parameters());
  });
}

std::filesystem::path part_of(const std::filesystem::path& path, std::size_t rank) {
  const std::string names = read_safetensors(path).string("split.names");
  return path.string() + concat(".part-", names, '-', rank);
}

StateDict read_sharded(const std::filesystem::path& path) {
  return with_sharded_rows(read_safetensors(path), path);
}

TEST(ShardedTablesOfATrainingRun, RejectSwappedAndForeignParts) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "run", other = folder / "other";
  save_of_two_ranks(run, 1, 5);
  save_of_two_ranks(other, 1, 6);
  const std::string mine = read_safetensors(run).string("split.id");
  const std::string foreign = read_safetensors(other).string("split.id");
  struct Exchange {
    std::filesystem::path from;
    std::string message;
  };
  const std::string expected = concat(", expected the rows of rank 0 of 2 of checkpoint ", mine);
  for (const Exchange& item :
       {Exchange{part_of(run, 1), concat("rank 1 of 2 of checkpoint ", mine, " at step 5")},
        {part_of(other, 0), concat("rank 0 of 2 of checkpoint ", foreign, " at step 6")}}) {
    const std::string good = read_file(part_of(run, 0));
    write_file(part_of(run, 0), read_file(item.from));
    EXPECT_ERROR(std::runtime_error,
                 concat(part_of(run, 0).string(), ": has the rows of ", item.message, expected,
                        " at step 5"),
                 read_sharded(run));
    write_file(part_of(run, 0), good);
  }
  StateDict any;
  any.put("text", "a");
  write_safetensors(part_of(run, 0), any);
  EXPECT_ERROR(std::runtime_error,
               part_of(run, 0).string() + ": is not a part of a sharded checkpoint",
               read_sharded(run));
}

TEST(ShardedTablesOfATrainingRun, KeepStateWithAnyName) {
  const TemporaryFolder folder;
  const std::vector<std::string> names{"weight.steps", "weight.rules", "weight.rows",
                                       "weight.values", "weight.step"};
  save_of_two_ranks(folder / "run", 1, 5, [&](StateDict& state) {
    for (const std::string& name : names)
      state.put("optimizer." + name, state.tensor("model.weight", {10, 4}));
    state.put("optimizer.weight.lazy.steps", std::vector<std::int64_t>(10));
  });
  const StateDict read = read_sharded(folder / "run");
  StateDict whole = read;
  const Tensor expected = read.tensor("model.weight", {20, 4});
  EXPECT_EQ(expected(0, 0), 1);
  EXPECT_EQ(expected(19, 0), 2);
  for (const std::string& name : names)
    EXPECT_EQ(read.tensor("optimizer." + name, {20, 4}), expected) << name;
  EXPECT_EQ(read.integers("optimizer.weight.lazy.steps").size(), 10U);
  run_ranks(2, [&](ProcessGroup& ranks) {  // load shards from whole tables
    Random random(1);
    ParallelTraining tables(ranks);
    const Embedding words(20, 4, random, EmbeddingOptions{.tables = &tables});
    const StateDict own = with_sharded_rows(whole, folder / "whole", &tables, words.parameters());
    for (const std::string& name : names)
      EXPECT_EQ(own.tensor("optimizer." + name, {10, 4})(9, 0), 1 + ranks.rank()) << name;
    EXPECT_EQ(own.integers("optimizer.weight.lazy.steps").size(), 10U);
    EXPECT_ERROR_WITH(
        std::invalid_argument, "the state has no rows of the sharded tables",
        write_sharded_checkpoint(folder / "run", StateDict(), tables, words.parameters()));
  });
}

TEST(ShardedTablesOfATrainingRun, RemoveOnlyPartsOfTheReplacedCheckpoint) {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "run";
  const std::vector<std::string> of_user{"run.part-00", "run.part-2024-11-26", "run.part-1-2-0"};
  for (const std::string& name : of_user) write_file(folder / name, "text");
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(folder.path()), {});
  };
  save_of_two_ranks(run, 1, 5);
  const std::filesystem::path first = part_of(run, 0);
  write_file(first.string() + "0", "text");  // has the name of a part
  // Restore the manifest, as after an interrupted save.
  const StateDict before = read_safetensors(run);
  const std::string good = read_file(run);
  save_of_two_ranks(run, 2, 6);
  write_file(run, good);
  save_of_two_ranks(run, 3, 7);
  EXPECT_FALSE(file_exists(first));
  EXPECT_EQ(part_of(run, 0), run.string() + ".part-" + before.string("split.next") + "-0");
  EXPECT_EQ(read_sharded(run).tensor("model.weight", {20, 4})(19, 0), 4);
  EXPECT_EQ(files(), 3 + 1 + 3);
  // Restore a part, as after a save that was interrupted while it removed parts.
  const std::filesystem::path third = part_of(run, 1);
  const std::string left = read_file(third);
  save_of_two_ranks(run, 4, 8);
  write_file(third, left);
  save_of_two_ranks(run, 5, 9);
  EXPECT_EQ(files(), 3 + 1 + 3);
  write_whole_checkpoint(run, read_sharded(run));
  EXPECT_EQ(files(), 1 + 1 + 3);
  for (const std::string& name : of_user) EXPECT_EQ(read_file(folder / name), "text");
}

}  // namespace
