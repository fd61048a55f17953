#include <chrono>
#include <iterator>
#include <set>

#include "tests/support/resumable.hpp"
#include "tests/test.hpp"

namespace {

using Position = DataLoader::Position;

static_assert(std::input_iterator<DataLoader::Iterator>);
static_assert(std::sentinel_for<std::default_sentinel_t, DataLoader::Iterator>);

// `count` windows of context 2; window i holds the ids 2i and 2i + 1.
TokenWindows windows(std::int32_t count) {
  Ids32 ids(static_cast<std::size_t>(2 * count + 1));
  std::iota(ids.begin(), ids.end(), 0);
  return TokenWindows(to_ids(ids), {.context = 2, .stride = 2});
}

// The indices of the windows in a batch.
Ids32 window_numbers(const Batch& batch) {
  Ids32 numbers;
  for (std::size_t row = 0; row < batch.inputs().shape(0); ++row)
    numbers.push_back(batch.inputs()(row, 0) / 2);
  return numbers;
}

// The batches of one loop, each of which is known while the one before it is there.
std::vector<Ids32> loop(DataLoader& loader, const BatchShard& shard = {}) {
  std::vector<Ids32> batches;
  std::optional<Batch> next;
  for (auto at = loader.begin(shard); at != loader.end(); ++at) {
    batches.push_back(window_numbers(*at));
    if (batches.size() > 1) {
      EXPECT_EQ(next.value().ids, (*at).ids);
    }
    next = at.next();
  }
  EXPECT_FALSE(next.has_value());
  return batches;
}

TEST(DataLoader, KeepsOrDropsTheShortBatch) {
  struct Case {
    std::int32_t windows;
    std::size_t batch;
    bool drop_last;
    std::vector<std::size_t> rows;
  };
  const std::vector<Case> cases = {
      {8, 4, false, {4, 4}}, {8, 4, true, {4, 4}}, {9, 4, false, {4, 4, 1}}, {9, 4, true, {4, 4}},
      {3, 4, false, {3}},    {4, 4, true, {4}},    {3, 1, false, {1, 1, 1}}, {1, 8, false, {1}},
  };
  for (const Case& c : cases) {
    DataLoader loader(windows(c.windows), {.batch = c.batch, .drop_last = c.drop_last});
    EXPECT_EQ(loader.size(), c.rows.size());
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::size_t> rows;
      for (const Ids32& batch : loop(loader)) rows.push_back(batch.size());
      EXPECT_EQ(rows, c.rows);
    }
  }
}

TEST(DataLoader, ShufflesEachEpochOfEachSeedAnew) {
  std::set<std::vector<Ids32>> orders;
  constexpr std::uint64_t kSeeds[] = {0, 1, 7, 8, std::uint64_t{1} << 32};  // all 64 bits count
  for (const std::uint64_t seed : kSeeds) {
    DataLoader loader(windows(50), {.batch = 50, .shuffle = true, .seed = seed});
    for (int epoch = 0; epoch < 4; ++epoch) {
      const std::vector<Ids32> order = loop(loader);
      EXPECT_TRUE(orders.insert(order).second) << seed << ' ' << epoch;
      EXPECT_FALSE(std::ranges::is_sorted(order.at(0)));
      EXPECT_EQ(std::set(order[0].begin(), order[0].end()).size(), 50U);
    }
  }
}

TEST(DataLoader, DrawsItsOrderFromARunsGeneratorAsPyTorchDoes) {
  for (const json& run : golden("loader_order.json")) {
    Random random(run["seed"].get<std::uint64_t>());
    const auto loader = [&](bool shuffle) {
      return DataLoader(windows(run["windows"]), {.batch = run["batch"],
                                                  .shuffle = shuffle,
                                                  .drop_last = run["drop_last"],
                                                  .generator = &random});
    };
    DataLoader training = loader(true);
    DataLoader validation = loader(false);
    for (const json& expected : run["loops"]) {
      std::vector<Ids32> batches;
      for (const Batch& batch : expected["shuffle"].get<bool>() ? training : validation) {
        batches.push_back(window_numbers(batch));
        if (batches.size() == expected["count"]) break;
      }
      EXPECT_EQ(batches, expected["batches"].get<std::vector<Ids32>>());
      EXPECT_EQ(random.uniform_double(), expected["next"].get<double>());
    }
  }
}

class RunningLoader : public Running {
 public:
  RunningLoader(DataLoaderOptions options, bool drawn, bool other) : random_(other ? 1 : 2) {
    if (drawn) options.generator = &random_;
    loader_.emplace(windows(10), options);
  }
  std::string step() override {
    if (at_) ++*at_;
    if (!at_ || *at_ == loader_->end()) at_.emplace(loader_->begin());
    const Ids32 numbers = window_numbers(**at_);
    return {reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size()};
  }
  Checkpoint save() override {
    Checkpoint state = loader_->state_dict();
    state.put("random", random_.state_dict());
    return state;
  }
  void load(const Checkpoint& state) override {
    loader_->load_state_dict(state);
    random_.load_state_dict(state.part("random"));
    at_.reset();
  }

 private:
  Random random_;
  std::optional<DataLoader> loader_;
  std::optional<DataLoader::Iterator> at_;
};

TEST(DataLoader, IsResumable) {
  const auto expect = [](const char* name, const DataLoaderOptions& options, bool drawn = false) {
    std::vector<std::string> taken{"2^62 in epoch", "unknown *(random.)more"};
    if (drawn) taken.push_back("2^62 in order_seed");
    expect_resumable(
        {.name = name,
         .make = [&](bool other) { return std::make_unique<RunningLoader>(options, drawn, other); },
         .steps = 14,
         .taken = taken,
         .failing = {0, 2, 4}});
  };
  expect("in order", {.batch = 3});
  expect("shuffled", {.batch = 3, .shuffle = true, .seed = 5});
  expect("in a drawn order", {.batch = 3, .shuffle = true, .drop_last = true}, true);
}

// Of a batch, a shard may be several of the parts that it is cut into: ranks need not have as many.
TEST(DataLoader, CutsBatchesIntoShards) {
  DataLoader loader(windows(12), {.batch = 5, .shuffle = true, .seed = 5});
  const std::vector<Ids32> whole = loop(loader);
  for (std::size_t count = 1; count <= 7; ++count)
    for (std::size_t begin = 0; begin < count; ++begin)
      for (std::size_t end = begin + 1; end <= count; ++end) {
        loader.rewind();
        const std::vector<Ids32> parts = loop(loader, {begin, end, count});
        ASSERT_EQ(parts.size(), whole.size());
        for (std::size_t batch = 0; batch < whole.size(); ++batch) {
          const std::size_t rows = loader.rows(batch);
          EXPECT_EQ(rows, whole[batch].size());
          const auto at = [&](std::size_t shard) {
            return whole[batch].begin() + static_cast<std::ptrdiff_t>(rows * shard / count);
          };
          EXPECT_EQ(parts[batch], Ids32(at(begin), at(end))) << begin << ' ' << end << ' ' << count;
        }
      }
  loader.rewind();
  EXPECT_EQ(loop(loader), whole);  // the shard is that of one loop
}

TEST(DataLoader, BeginsANewEpochAfterALoopThatWasLeftEarly) {
  DataLoader loader(windows(6), {.batch = 2});
  for ([[maybe_unused]] const Batch& batch : loader) break;
  EXPECT_EQ(loader.position(), (Position{0, 1})) << "the batch that a loop is at counts";
  EXPECT_EQ(loop(loader), (std::vector<Ids32>{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(loader.position(), (Position{2, 0}));
  for ([[maybe_unused]] const Batch& batch : loader) break;
  loader.load_state_dict(loader.state_dict());
  EXPECT_EQ(loop(loader), (std::vector<Ids32>{{2, 3}, {4, 5}}));
}

TEST(DataLoader, RunsSeveralLoopsAtOnceEachAnEpochOfItsOwn) {
  const DataLoaderOptions options{.batch = 2, .shuffle = true, .seed = 5};
  DataLoader loader(windows(6), options), one_by_one(windows(6), options);
  std::vector<std::vector<Ids32>> epochs;  // of loops one after another
  for (int i = 0; i < 5; ++i) epochs.push_back(loop(one_by_one));

  std::vector<Ids32> outer;
  std::size_t inner = 1;
  for (const Batch& batch : loader) {
    EXPECT_EQ(loop(loader), epochs[inner]);
    EXPECT_EQ(loader.position(), (Position{++inner, 0})) << "of the loop that was started last";
    outer.push_back(window_numbers(batch));
  }
  EXPECT_EQ(outer, epochs[0]);
  EXPECT_EQ(loader.position(), (Position{4, 0}));
  EXPECT_EQ(loop(loader), epochs[4]);
}

// Example i is the id i.
struct Numbered100Million : Dataset {
  std::size_t size() const override { return 100'000'000; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    return {.ids = {to_ids(examples)}};
  }
};

TEST(DataLoader, ShufflesManyExamplesWithoutAListOfThem) {
  const DataLoaderOptions options{.batch = 16, .shuffle = true, .seed = 3};
  DataLoader loader(Numbered100Million(), options), again(Numbered100Million(), options);
  const auto start = std::chrono::steady_clock::now();
  auto at = loader.begin();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  std::set<std::int32_t> seen;
  for (int i = 0; i < 1000; ++i, ++at) seen.insert((*at).ids[0].begin(), (*at).ids[0].end());
  EXPECT_EQ(seen.size(), 16'000U);
  again.load_state_dict(loader.state_dict());
  auto resumed = again.begin();
  ++at;
  EXPECT_EQ((*resumed).ids, (*at).ids);

  Checkpoint old = loader.state_dict();  // of a version that had another order
  EXPECT_INVALID("Checkpoint: \"data.keyed_order\" is missing",
                 again.load_state_dict(without(old, "data.keyed_order")));
}

// What states of version 0.2.0 have, too.
Checkpoint at(const Position& position) {
  Checkpoint state;
  state.put("epoch", position.epoch);
  state.put("batch", position.batch);
  return state;
}

TEST(DataLoader, RefusesWhatIsNotThere) {
  DataLoader loader(windows(5), {.batch = 2});
  loader.load_state_dict(at({2, 1}));
  EXPECT_INVALID("DataLoader::load_state_dict: there is no batch 3 in an epoch of 3 batches",
                 loader.load_state_dict(at({0, 3})));
  EXPECT_INVALID("DataLoader::rows: there is no batch 3 in an epoch of 3 batches", loader.rows(3));
  EXPECT_INVALID("DataLoader: the shard is [1, 1) of 2, expected a range that is not empty",
                 loader.begin({1, 1, 2}));
  EXPECT_INVALID("DataLoader: the shard is [2, 3) of 2, expected a range that is not empty",
                 loader.begin({2, 3, 2}));
  EXPECT_EQ(loader.position(), (Position{2, 1})) << "a refusal changes nothing";
  EXPECT_EQ(loop(loader), (std::vector<Ids32>{{2, 3}, {4}}));
  EXPECT_INVALID("DataLoader: batch is -1, expected at least 1",
                 DataLoader(windows(4), {.batch = ~std::size_t{0}}));
  EXPECT_INVALID("DataLoader: batch is 0, expected at least 1",
                 DataLoader(windows(5), {.batch = 0}));
  EXPECT_INVALID(
      "DataLoader: 7 examples do not fill one batch of 8, and drop_last leaves a shorter one out",
      DataLoader(windows(7), {.batch = 8, .drop_last = true}));
}

TEST(DataLoader, RefusesTheStateOfAnother) {
  Ids32 ids(21);
  std::iota(ids.begin(), ids.end(), 0);
  Ids32 other_ids = ids;
  other_ids[9] = 8;
  const auto text = [](const Ids32& numbers, std::size_t stride) {
    return TokenWindows(to_ids(numbers), {.context = 2, .stride = stride});
  };
  const auto learned = [&](const Ids32& targets) {
    return TokenWindows(to_ids(ids), to_ids(targets), {.context = 3, .stride = 2});
  };
  Random random(1);
  const std::vector<std::pair<DataLoader, std::string>> cases = {
      {DataLoader(text(ids, 2), {.batch = 4, .shuffle = true, .seed = 5}),
       "batch 3, this one has 4"},
      {DataLoader(text(ids, 2), {.batch = 3, .seed = 5}), "shuffle 1, this one has 0"},
      {DataLoader(text(ids, 2), {.batch = 3, .shuffle = true, .seed = 6}),
       "shuffle_seed 5, this one has 6"},
      {DataLoader(text(ids, 2), {.batch = 3, .shuffle = true, .seed = 5, .drop_last = true}),
       "drop_last 0, this one has 1"},
      {DataLoader(text(ids, 2), {.batch = 3, .shuffle = true, .seed = 5, .generator = &random}),
       "generator 0, this one has 1"},
      {DataLoader(text(ids, 3), {.batch = 3, .shuffle = true, .seed = 5}),
       "stride 2, this one has 3"},
      {DataLoader(learned(ids), {.batch = 3, .shuffle = true, .seed = 5}),
       "context 2, this one has 3"},
  };
  const std::string message = "DataLoader::load_state_dict: the state is of a loader with ";
  const Checkpoint state =
      DataLoader(text(ids, 2), {.batch = 3, .shuffle = true, .seed = 5}).state_dict();
  for (const auto& item : cases) {
    DataLoader loader = item.first;
    EXPECT_INVALID(message + item.second, loader.load_state_dict(state));
  }
  DataLoader other_text(text(other_ids, 2), {.batch = 3});
  EXPECT_ERROR_WITH(
      std::invalid_argument, message + "ids_checksum ",
      other_text.load_state_dict(DataLoader(text(ids, 2), {.batch = 3}).state_dict()));
  DataLoader other_targets(learned(other_ids), {.batch = 3});
  EXPECT_ERROR_WITH(
      std::invalid_argument, message + "ids_checksum ",
      other_targets.load_state_dict(DataLoader(learned(ids), {.batch = 3}).state_dict()));
}

}  // namespace
