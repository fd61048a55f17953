#include <chrono>
#include <iterator>
#include <set>
#include <thread>

#include "tests/support/resumable.hpp"
#include "tests/test.hpp"

namespace {

static_assert(std::input_iterator<DataLoader::Iterator>);
static_assert(std::sentinel_for<std::default_sentinel_t, DataLoader::Iterator>);

// Returns `count` windows of context 2; window i holds the ids 2i and 2i + 1.
TokenWindows windows(std::int32_t count) {
  Ids32 ids(static_cast<std::size_t>(2 * count + 1));
  std::iota(ids.begin(), ids.end(), 0);
  return TokenWindows(to_ids(ids), {.context = 2, .stride = 2});
}

// Returns the indices of the windows in a batch.
Ids32 window_indices(const Batch& batch) {
  Ids32 numbers;
  for (std::size_t row = 0; row < batch.inputs().shape(0); ++row)
    numbers.push_back(batch.inputs()(row, 0) / 2);
  return numbers;
}

std::vector<Ids32> loop(const DataLoader::Epoch& epoch) {
  std::vector<Ids32> batches;
  for (const Batch& batch : epoch) batches.push_back(window_indices(batch));
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
    EXPECT_EQ(loader.batches(), c.rows.size());
    for (std::size_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::size_t> rows;
      for (const Ids32& batch : loop(loader.epoch(epoch))) rows.push_back(batch.size());
      EXPECT_EQ(rows, c.rows);
    }
  }
}

TEST(DataLoader, ShufflesDifferentlyForEachEpochAndSeed) {
  std::set<std::vector<Ids32>> orders;
  constexpr std::uint64_t kSeeds[] = {
      0, 1, 7, 8, std::uint64_t{1} << 32};  // 2^32 and 0 have the same lower half
  for (const std::uint64_t seed : kSeeds) {
    DataLoader loader(windows(50), {.batch = 50, .shuffle = true, .seed = seed});
    for (std::size_t epoch = 0; epoch < 4; ++epoch) {
      const std::vector<Ids32> order = loop(loader.epoch(epoch));
      EXPECT_TRUE(orders.insert(order).second) << seed << ' ' << epoch;
      EXPECT_FALSE(std::ranges::is_sorted(order.at(0)));
      EXPECT_EQ(std::set(order[0].begin(), order[0].end()).size(), 50U);
    }
  }
}

TEST(DataLoader, DrawsTheSameOrderAsPyTorch) {
  for (const json& run : golden("loader_order.json")) {
    Random random(run["seed"].get<std::uint64_t>());
    const auto loader = [&](bool shuffle) {
      return DataLoader(windows(run["windows"]), {.batch = run["batch"],
                                                  .shuffle = shuffle,
                                                  .drop_last = run["drop_last"],
                                                  .draw_order = true});
    };
    const DataLoader training = loader(true), validation = loader(false);
    for (const json& expected : run["loops"]) {
      std::vector<Ids32> batches;
      const DataLoader& drawn = expected["shuffle"].get<bool>() ? training : validation;
      for (const Batch& batch : drawn.epoch(drawn.start(0, random))) {
        batches.push_back(window_indices(batch));
        if (batches.size() == expected["count"]) break;
      }
      EXPECT_EQ(batches, expected["batches"].get<std::vector<Ids32>>());
      EXPECT_EQ(random.uniform_double(), expected["next"].get<double>());
    }
  }
}

// A training loop that saves its progress.
class RunningLoader : public Running {
 public:
  RunningLoader(const DataLoaderOptions& options, bool other)
      : random_(other ? 1 : 2), loader_(windows(10), options) {}

  std::string step() override {
    if (progress_.batch == loader_.batches()) progress_ = {.epoch = progress_.epoch + 1};
    if (progress_.batch == 0) progress_ = loader_.start(progress_.epoch, random_);
    const Ids32 numbers = window_indices(loader_.epoch(progress_).read(progress_.batch++));
    return {reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size()};
  }
  StateDict save() override {
    StateDict state = loader_.state_dict(progress_);
    state.put("random", random_.state_dict());
    return state;
  }
  void load(const StateDict& state) override {
    const Progress progress = loader_.progress(state);
    random_.load_state_dict(state.part("random"));
    progress_ = progress;
  }

 private:
  Random random_;
  DataLoader loader_;
  Progress progress_;
};

TEST(DataLoader, IsResumable) {
  const auto expect = [](const char* name, const DataLoaderOptions& options) {
    std::vector<std::string> taken{"2^62 in epoch", "unknown *(random.)more"};
    if (options.draw_order) taken.push_back("2^62 in order_seed");
    expect_resumable(
        {.name = name,
         .make = [&](bool other) { return std::make_unique<RunningLoader>(options, other); },
         .steps = 14,
         .taken = taken,
         .failing = {0, 2, 4}});
  };
  expect("in order", {.batch = 3});
  expect("shuffled", {.batch = 3, .shuffle = true, .seed = 5});
  expect("in a drawn order", {.batch = 3, .shuffle = true, .drop_last = true, .draw_order = true});
}

TEST(DataLoader, CutsBatchesIntoSlices) {
  const DataLoader loader(windows(12), {.batch = 5, .shuffle = true, .seed = 5});
  const std::vector<Ids32> whole = loop(loader.epoch(0));
  for (std::size_t count = 1; count <= 7; ++count)
    for (std::size_t index = 0; index < count; ++index) {
      const BatchSlice slice{.index = index, .count = count};
      const std::vector<Ids32> parts = loop(loader.epoch(0, 0, slice));
      ASSERT_EQ(parts.size(), whole.size());
      for (std::size_t batch = 0; batch < whole.size(); ++batch) {
        const std::size_t rows = loader.rows(batch);
        EXPECT_EQ(rows, whole[batch].size());
        const auto at = [&](std::size_t i) {
          return whole[batch].begin() + static_cast<std::ptrdiff_t>(rows * i / count);
        };
        EXPECT_EQ(parts[batch], Ids32(at(index), at(index + 1))) << index << ' ' << count;
        EXPECT_EQ(window_indices(loader.epoch(0).read(batch, slice)), parts[batch]);
      }
    }
}

TEST(DataLoader, StartsInTheMiddleOfAnEpoch) {
  const DataLoader loader(windows(6), {.batch = 2});
  EXPECT_EQ(loop(loader.epoch(7, 1)), (std::vector<Ids32>{{2, 3}, {4, 5}}));
  EXPECT_TRUE(loop(loader.epoch(7, 3)).empty());  // at the end of the epoch
}

TEST(DataLoader, RunsSeveralLoopsAtOnce) {
  const DataLoader loader(windows(6), {.batch = 2, .shuffle = true, .seed = 5});
  const std::vector<Ids32> first = loop(loader.epoch(0)), second = loop(loader.epoch(1));
  std::vector<Ids32> outer;
  for (const Batch& batch : loader.epoch(0)) {
    EXPECT_EQ(loop(loader.epoch(1)), second);
    EXPECT_EQ(loop(loader.epoch(0)), first);
    outer.push_back(window_indices(batch));
  }
  EXPECT_EQ(outer, first);
}

TEST(DataLoader, CanBeDestroyedDuringALoop) {
  std::size_t count = 0;
  for (const Batch& batch : DataLoader(windows(6), {.batch = 4}).epoch(0)) count += batch.rows();
  EXPECT_EQ(count, 6U);
}

// 100 million examples; example i is the id i.
struct Numbered100Million : Dataset {
  std::size_t size() const override { return 100'000'000; }
  Batch batch(std::span<const std::int64_t> examples) const override {
    return {.ids = {to_ids(examples)}};
  }
};

TEST(DataLoader, ShufflesManyExamplesWithoutAList) {
  const DataLoader loader(Numbered100Million(), {.batch = 16, .shuffle = true, .seed = 3});
  const auto start = std::chrono::steady_clock::now();
  const DataLoader::Epoch epoch = loader.epoch(0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  std::set<std::int32_t> seen;
  for (std::size_t i = 0; i < 1000; ++i) {
    const Batch batch = epoch.read(i);
    seen.insert(batch.ids[0].begin(), batch.ids[0].end());
  }
  EXPECT_EQ(seen.size(), 16'000U);
}

TEST(DataLoader, ComputesItsDescriptionOnce) {
  struct Described : Numbered100Million {
    StateDict description() const override {
      ++*count;
      return Numbered100Million::description();
    }
    std::shared_ptr<int> count = std::make_shared<int>(0);
  };
  const Described data;
  const DataLoader loader(data);
  std::thread other([copy = loader] { copy.description(); });
  EXPECT_EQ(loader.description().count("examples"), 100'000'000U);
  other.join();
  EXPECT_EQ(*data.count, 1);
}

TEST(DataLoader, RejectsInvalidArguments) {
  const DataLoader loader(windows(5), {.batch = 2});
  const std::string message = " is out of range: an epoch has 3 batches";
  EXPECT_INVALID("DataLoader: batch 4" + message, loader.progress(loader.state_dict({.batch = 4})));
  EXPECT_INVALID("DataLoader: batch 4" + message, loader.epoch(0, 4));
  EXPECT_INVALID("DataLoader: batch 3" + message, loader.epoch(0).read(3));
  EXPECT_INVALID("DataLoader: batch 3" + message, loader.rows(3));
  EXPECT_INVALID("DataLoader: slice.index is 2, expected less than slice.count, 2",
                 loader.epoch(0).read(0, {2, 2}));
  EXPECT_INVALID("DataLoader: slice.index is 0, expected less than slice.count, 0",
                 loader.epoch(0).read(0, {0, 0}));
  EXPECT_INVALID("DataLoader::epoch: draw_order is set, expected a Progress returned by start()",
                 DataLoader(windows(5), {.draw_order = true}).epoch(0));
  EXPECT_INVALID("DataLoader: batch is -1, expected at least 1",
                 DataLoader(windows(4), {.batch = ~std::size_t{0}}));
  EXPECT_INVALID("DataLoader: batch is 0, expected at least 1",
                 DataLoader(windows(5), {.batch = 0}));
}

TEST(DataLoader, HasAnEmptyEpochWithoutAWholeBatch) {
  const DataLoader loader(windows(7), {.batch = 8, .shuffle = true, .drop_last = true});
  EXPECT_EQ(loader.batches(), 0U);
  for (const Batch& batch : loader.epoch(1)) ADD_FAILURE() << batch.rows();
  EXPECT_INVALID("DataLoader: batch 0 is out of range: an epoch has 0 batches",
                 loader.epoch(0).read(0));
  const Progress start{.epoch = 2};
  EXPECT_EQ(loader.progress(loader.state_dict(start)).epoch, 2U);
}

TEST(DataLoader, RejectsTheStateOfAnotherLoader) {
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
  const std::vector<std::pair<DataLoader, std::string>> cases = {
      {DataLoader(text(ids, 2), {.batch = 4, .shuffle = true, .seed = 5}), "batch 3, expected 4"},
      {DataLoader(text(ids, 2), {.batch = 3, .seed = 5}), "shuffle 1, expected 0"},
      {DataLoader(text(ids, 2), {.batch = 3, .shuffle = true, .seed = 6}), "seed 5, expected 6"},
      {DataLoader(text(ids, 2), {.batch = 3, .shuffle = true, .seed = 5, .drop_last = true}),
       "drop_last 0, expected 1"},
      {DataLoader(text(ids, 2), {.batch = 3, .shuffle = true, .seed = 5, .draw_order = true}),
       "draw_order 0, expected 1"},
      {DataLoader(text(ids, 3), {.batch = 3, .shuffle = true, .seed = 5}), "stride 2, expected 3"},
      {DataLoader(learned(ids), {.batch = 3, .shuffle = true, .seed = 5}), "context 2, expected 3"},
  };
  const std::string message = "DataLoader: the state is from a loader with ";
  const StateDict state =
      DataLoader(text(ids, 2), {.batch = 3, .shuffle = true, .seed = 5}).state_dict({});
  for (const auto& item : cases) EXPECT_INVALID(message + item.second, item.first.progress(state));
  DataLoader other_text(text(other_ids, 2), {.batch = 3});
  EXPECT_ERROR_WITH(std::invalid_argument, message + "ids_checksum ",
                    other_text.progress(DataLoader(text(ids, 2), {.batch = 3}).state_dict({})));
  DataLoader other_targets(learned(other_ids), {.batch = 3});
  EXPECT_ERROR_WITH(std::invalid_argument, message + "ids_checksum ",
                    other_targets.progress(DataLoader(learned(ids), {.batch = 3}).state_dict({})));
}

}  // namespace
