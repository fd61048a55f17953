#include <iterator>

#include "tests/support/resumable.hpp"
#include "tests/test.hpp"

namespace {

using Numbers = std::vector<std::int32_t>;
using Position = DataLoader::Position;

static_assert(std::input_iterator<DataLoader::Iterator>);
static_assert(std::sentinel_for<std::default_sentinel_t, DataLoader::Iterator>);

// `count` windows of context 2; window i holds the ids 2i and 2i + 1.
TokenWindows windows(std::int32_t count) {
  Numbers ids(static_cast<std::size_t>(2 * count + 1));
  std::iota(ids.begin(), ids.end(), 0);
  return TokenWindows(to_ids(ids), {.context = 2, .stride = 2});
}

// The indices of the windows in a batch.
Numbers window_numbers(const Batch& batch) {
  Numbers numbers;
  for (std::size_t row = 0; row < batch.inputs().shape(0); ++row)
    numbers.push_back(batch.inputs()(row, 0) / 2);
  return numbers;
}

// The batches of one loop, each of which is known while the one before it is there.
std::vector<Numbers> loop(DataLoader& loader, const BatchShard& shard = {}) {
  std::vector<Numbers> batches;
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

Numbers joined(const std::vector<Numbers>& batches) {
  Numbers all;
  for (const Numbers& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

TEST(DataLoader, GivesWindowsInOrderWithTheirTargets) {
  DataLoader loader(windows(5), {.batch = 2});
  std::vector<Numbers> inputs;
  std::vector<Numbers> targets;
  for (const Batch& batch : loader) {
    EXPECT_EQ(batch.inputs().dimension(), 2U);
    EXPECT_EQ(batch.inputs().shape(1), 2U);
    EXPECT_EQ(batch.inputs().shape(), batch.targets().shape());
    inputs.push_back(values(batch.inputs()));
    targets.push_back(values(batch.targets()));
  }
  EXPECT_EQ(inputs, (std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}}));
  EXPECT_EQ(targets, (std::vector<Numbers>{{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10}}));
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
      for (const Numbers& batch : loop(loader)) rows.push_back(batch.size());
      EXPECT_EQ(rows, c.rows);
    }
  }
}

TEST(DataLoader, ShufflesEveryEpochAnew) {
  Numbers in_order(50);
  std::iota(in_order.begin(), in_order.end(), 0);
  std::vector<Numbers> epochs = {in_order};
  DataLoader loader(windows(50), {.batch = 8, .shuffle = true, .seed = 7});
  for (int epoch = 0; epoch < 5; ++epoch) {
    Numbers order = joined(loop(loader));
    EXPECT_EQ(std::count(epochs.begin(), epochs.end(), order), 0);
    epochs.push_back(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, in_order);
  }
}

Checkpoint at(const Position& position) {
  Checkpoint state;
  state.put("epoch", position.epoch);
  state.put("batch", position.batch);
  return state;
}

TEST(DataLoader, OrdersAnEpochByItsSeedAndNumberAlone) {
  const auto epoch = [](std::uint64_t seed, std::size_t number, bool step_by_step) {
    DataLoader loader(windows(50), {.batch = 8, .shuffle = true, .seed = seed});
    if (step_by_step)
      for (std::size_t i = 0; i < number; ++i) loop(loader);
    else
      loader.load_state_dict(at({.epoch = number}));
    return joined(loop(loader));
  };
  EXPECT_EQ(epoch(7, 3, true), epoch(7, 3, false));
  EXPECT_NE(epoch(7, 0, true), epoch(8, 0, true));
  EXPECT_NE(epoch(7, 1, true), epoch(8, 0, true))
      << "the seed and the epoch must not just be added";
  EXPECT_NE(epoch(0, 1, true), epoch(1, 0, true));
  EXPECT_NE(epoch(std::uint64_t{1} << 32, 0, true), epoch(0, 0, true)) << "all 64 bits count";
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
      std::vector<Numbers> batches;
      for (const Batch& batch : expected["shuffle"].get<bool>() ? training : validation) {
        batches.push_back(window_numbers(batch));
        if (batches.size() == expected["count"]) break;
      }
      EXPECT_EQ(batches, expected["batches"].get<std::vector<Numbers>>());
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
    const Numbers numbers = window_numbers(**at_);
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

TEST(DataLoader, CutsBatchesIntoShards) {
  const DataLoaderOptions options{.batch = 5, .shuffle = true, .seed = 5};
  const auto all = [&](BatchShard shard) {
    DataLoader loader(windows(12), options);
    EXPECT_EQ(loader.size(), 3U);
    return loop(loader, shard);
  };
  const std::vector<Numbers> whole = all({});
  for (std::size_t count = 1; count <= 7; ++count) {
    std::vector<Numbers> joined_shards(whole.size());
    for (std::size_t index = 0; index < count; ++index) {
      const std::vector<Numbers> part = all({index, index + 1, count});
      for (std::size_t batch = 0; batch < whole.size(); ++batch) {
        const std::size_t rows = whole[batch].size();
        EXPECT_EQ(part[batch].size(), rows * (index + 1) / count - rows * index / count);
        joined_shards[batch].insert(joined_shards[batch].end(), part[batch].begin(),
                                    part[batch].end());
      }
    }
    EXPECT_EQ(joined_shards, whole) << count;
  }
}

// The parts of ranks whose shards are not equally many.
TEST(DataLoader, CutsSeveralShardsAsOne) {
  DataLoader loader(windows(12), {.batch = 5});
  const std::vector<Numbers> whole = loop(loader);
  for (const auto& [begin, end] :
       std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {1, 2}, {2, 4}, {4, 7}, {0, 7}}) {
    const std::vector<Numbers> parts = loop(loader, {begin, end, 7});
    for (std::size_t batch = 0; batch < whole.size(); ++batch) {
      const std::size_t rows = loader.rows(batch);
      EXPECT_EQ(rows, whole[batch].size());
      const auto at = [&](std::size_t shard) {
        return whole[batch].begin() + static_cast<std::ptrdiff_t>(rows * shard / 7);
      };
      EXPECT_EQ(parts[batch], Numbers(at(begin), at(end))) << begin << ' ' << batch;
    }
  }
  EXPECT_THROW(loader.rows(3), std::invalid_argument);
  const Position before = loader.position();
  EXPECT_INVALID("DataLoader: the shard is [1, 1) of 2, expected a range that is not empty",
                 loader.begin({1, 1, 2}));
  EXPECT_INVALID("DataLoader: the shard is [2, 3) of 2, expected a range that is not empty",
                 loader.begin({2, 3, 2}));
  EXPECT_EQ(loader.position(), before);
  EXPECT_EQ(loop(loader), whole);  // the shard is that of one loop
}

TEST(DataLoader, CountsTheBatchThatALoopIsAtAsHandedOut) {
  DataLoader loader(windows(4), {.batch = 2});
  std::vector<Position> positions = {loader.position()};
  for (int epoch = 0; epoch < 2; ++epoch)
    for ([[maybe_unused]] const Batch& batch : loader) positions.push_back(loader.position());
  EXPECT_EQ(positions, (std::vector<Position>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}}));
}

TEST(DataLoader, BeginsANewEpochAfterALoopThatWasLeftEarly) {
  DataLoader loader(windows(6), {.batch = 2});
  for ([[maybe_unused]] const Batch& batch : loader) break;
  EXPECT_EQ(loader.position(), (Position{0, 1}));
  EXPECT_EQ(loop(loader), (std::vector<Numbers>{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(loader.position(), (Position{2, 0}));
  for ([[maybe_unused]] const Batch& batch : loader) break;
  loader.load_state_dict(loader.state_dict());
  EXPECT_EQ(loop(loader), (std::vector<Numbers>{{2, 3}, {4, 5}}));
}

TEST(DataLoader, CopiesWithItsPosition) {
  DataLoader loader(windows(20), {.batch = 3, .shuffle = true, .seed = 1});
  loop(loader);
  DataLoader copy = loader;
  EXPECT_EQ(loop(copy), loop(loader));
}

TEST(DataLoader, ReusesTheMemoryOfItsBatches) {
#if defined(ROWGRAD_ADDRESS_SANITIZER)
  GTEST_SKIP() << "under AddressSanitizer the pool gives all memory back";
#endif
  DataLoader loader(windows(1001), {.batch = 4, .shuffle = true});
  loop(loader);
  std::vector<const std::int32_t*> places;
  const std::size_t requests = BufferPool::statistics().system_requests;
  std::size_t in_use = 0;
  for (const Batch& batch : loader) {
    places.push_back(batch.inputs().data());
    if (places.size() == 1) in_use = BufferPool::statistics().bytes_in_use;
    EXPECT_LE(BufferPool::statistics().bytes_in_use, in_use);
  }
  EXPECT_EQ(BufferPool::statistics().system_requests, requests);
  ASSERT_EQ(places.size(), 251U);
  const std::set<const std::int32_t*> distinct(places.begin(), places.end());
  EXPECT_LE(distinct.size(), 4U);  // two arrays of a full batch, two of the short one
}

TEST(DataLoader, GivesABatchAway) {
  DataLoader loader(windows(5), {.batch = 2});
  auto at = loader.begin();
  const Batch first = at.take();
  EXPECT_EQ(window_numbers(first), (Numbers{0, 1}));
  EXPECT_EQ(window_numbers(*++at), (Numbers{2, 3}));
}

TEST(DataLoader, RefusesAPositionThatItCannotBeAt) {
  DataLoader loader(windows(5), {.batch = 2});
  loader.load_state_dict(at({2, 1}));
  for (const std::size_t batch : {3, 4}) {
    EXPECT_INVALID("DataLoader::load_state_dict: there is no batch " + std::to_string(batch) +
                       " in an epoch of 3 batches",
                   loader.load_state_dict(at({0, batch})));
  }
  EXPECT_EQ(loader.position(), (Position{2, 1})) << "a refusal changes nothing";
  EXPECT_EQ(loop(loader), (std::vector<Numbers>{{2, 3}, {4}}));
}

TEST(DataLoader, RefusesTheStateOfAnother) {
  Numbers ids(21), other_ids(21);
  std::iota(ids.begin(), ids.end(), 0);
  std::iota(other_ids.begin(), other_ids.end(), 0);
  other_ids[9] = 8;
  const WindowOptions pairs{.context = 2, .stride = 2};
  const auto own_targets = [&](const Numbers& targets) {
    return TokenWindows(to_ids(ids), to_ids(targets), {.context = 3, .stride = 2});
  };
  const DataLoaderOptions options{.batch = 3, .shuffle = true, .seed = 5};
  Random random(1);
  DataLoader loader(TokenWindows(to_ids(ids), pairs), options);
  const Checkpoint state = loader.state_dict();
  const auto refusal = [&](TokenWindows windows, const DataLoaderOptions& others) {
    DataLoader other(std::move(windows), others);
    return error_of<std::invalid_argument>([&] { other.load_state_dict(state); });
  };
  const auto with_options = [&](const DataLoaderOptions& others) {
    return refusal(TokenWindows(to_ids(ids), pairs), others);
  };
  const std::string message = "DataLoader::load_state_dict: the state is of a loader with ";
  EXPECT_EQ(with_options(options), "no error");
  EXPECT_EQ(with_options({.batch = 4, .shuffle = true, .seed = 5}),
            message + "batch 3, this one has 4");
  EXPECT_EQ(with_options({.batch = 3, .seed = 5}), message + "shuffle 1, this one has 0");
  EXPECT_EQ(with_options({.batch = 3, .shuffle = true, .seed = 6}),
            message + "shuffle_seed 5, this one has 6");
  EXPECT_EQ(with_options({.batch = 3, .shuffle = true, .seed = 5, .drop_last = true}),
            message + "drop_last 0, this one has 1");
  EXPECT_EQ(with_options({.batch = 3, .shuffle = true, .seed = 5, .generator = &random}),
            message + "generator 0, this one has 1");
  EXPECT_HAS(refusal(TokenWindows(to_ids(other_ids), pairs), options), message + "ids_checksum ");
  const Checkpoint in_order =
      DataLoader(TokenWindows(to_ids(ids), pairs), {.batch = 3}).state_dict();
  EXPECT_INVALID(message + "shuffle 0, this one has 1", loader.load_state_dict(in_order));
  EXPECT_HAS(refusal(own_targets(ids), options), message + "context 2, this one has 3");
  EXPECT_HAS(refusal(TokenWindows(to_ids(ids), {.context = 2, .stride = 3}), options),
             message + "stride 2, this one has 3");

  DataLoader learned(own_targets(ids), {.batch = 3}), others(own_targets(other_ids), {.batch = 3});
  EXPECT_ERROR_WITH(std::invalid_argument, message + "ids_checksum ",
                    others.load_state_dict(learned.state_dict()));
  DataLoader again(own_targets(ids), {.batch = 3});
  again.begin({1, 2, 3});
  EXPECT_NO_THROW(again.load_state_dict(learned.state_dict()));
}

TEST(DataLoader, RefusesOptionsThatGiveNoBatch) {
  EXPECT_INVALID("DataLoader: batch is 0, expected at least 1",
                 DataLoader(windows(5), {.batch = 0}));
  EXPECT_INVALID(
      "DataLoader: 7 examples do not fill one batch of 8, and drop_last leaves a shorter one "
      "out",
      DataLoader(windows(7), {.batch = 8, .drop_last = true}));
}

}  // namespace
