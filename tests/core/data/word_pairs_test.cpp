#include "tests/test.hpp"

namespace {

constexpr std::size_t kWords = 12;

// A text in which word i occurs about twice as often as word i + 1.
TokenSequence text_of(std::size_t tokens, std::uint64_t seed = 1) {
  Random random(seed);
  std::vector<std::int32_t> text;
  for (std::size_t i = 0; i < tokens; ++i)
    text.push_back(std::min(std::countl_zero(random.bits()), static_cast<int>(kWords) - 1));
  return text;
}

std::vector<std::int64_t> all_blocks(const Dataset& data) {
  std::vector<std::int64_t> blocks(data.size());
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

std::vector<std::int32_t> bag(const RaggedIds& bags, std::size_t i) {
  const auto end = i + 1 < bags.offsets.size() ? bags.offsets.data()[i + 1] : bags.ids.size();
  return {bags.ids.begin() + bags.offsets.data()[i], bags.ids.begin() + end};
}

std::vector<std::vector<std::int32_t>> all_values(const Batch& batch) {
  std::vector<std::vector<std::int32_t>> all;
  for (const RaggedIds& bags : batch.bags)
    for (const Ids& ids : {bags.ids, bags.offsets}) all.emplace_back(ids.begin(), ids.end());
  for (const Ids& ids : batch.shared) all.emplace_back(ids.begin(), ids.end());
  return all;
}

std::vector<WordPairOptions> kinds() {
  const WordPairOptions plain{.vocabulary = kWords, .block = 50, .subsample = 0.05};
  WordPairOptions cbow = plain, shares = plain;
  cbow.cbow = true;
  shares.shared_negatives = 7;
  return {plain, cbow, shares};
}

TEST(WordPairs, PairWordsOfABlockWithinTheirWindows) {
  // The id 9 is not a word, so 0 and 2 are neighbours. The last block has two tokens.
  const TokenSequence text = Ids{0, 9, 2, 3, 4, 5};
  WordPairOptions options{
      .vocabulary = 10, .block = 4, .window = 1, .subsample = 0, .negatives = 2, .left_out = {9}};
  const WordPairs pairs(text, options);
  EXPECT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs.unit().name, "tokens");
  Random random(1);
  for (const Batch& batch :
       {pairs.batch(all_blocks(pairs)), pairs.draw(all_blocks(pairs), random)}) {
    ASSERT_EQ(batch.bags.size(), 4U);
    EXPECT_EQ(bag(batch.bags[0], 0), (std::vector{0, 2, 3}));
    EXPECT_EQ(bag(batch.bags[1], 0), (std::vector{2, 0, 3, 2}));
    EXPECT_EQ(bag(batch.bags[0], 1), (std::vector{4, 5}));
    EXPECT_EQ(bag(batch.bags[1], 1), (std::vector{5, 4}));
    EXPECT_EQ(bag(batch.bags[2], 0).size(), 8U);
    EXPECT_EQ(bag(batch.bags[2], 1).size(), 4U);
    EXPECT_EQ(bag(batch.bags[3], 0), (std::vector{1, 2, 1}));
    EXPECT_EQ(std::ranges::count(batch.bags[2].ids, 9), 0);
    EXPECT_EQ(batch.rows(), 2U);
  }
  options.cbow = true;
  const Batch cbow = WordPairs(text, options).batch(std::vector<std::int64_t>{0});
  EXPECT_EQ(bag(cbow.bags[0], 0), (std::vector{2, 0, 3, 2}));  // context words
  EXPECT_EQ(bag(cbow.bags[1], 0), (std::vector{0, 2, 3}));
  EXPECT_EQ(bag(cbow.bags[2], 0).size(), 6U);
  EXPECT_EQ(bag(cbow.bags[3], 0), (std::vector{1, 2, 1}));
  options.shared_negatives = 5;
  const Batch shared = WordPairs(text, options).batch(std::vector<std::int64_t>{0, 1});
  EXPECT_EQ(shared.bags.size(), 3U);
  ASSERT_EQ(shared.shared.size(), 1U);
  EXPECT_EQ(shared.shared[0].size(), 5U);
  EXPECT_EQ(shared.select(std::vector<std::int64_t>{1}).shared[0], shared.shared[0]);
  EXPECT_EQ(pairs.batch({}).rows(), 0U);
  // Now the id 9 ends windows, and 0 has no neighbour.
  options.borders = {9};
  options.block = 6;
  const Batch parts = WordPairs(text, options).batch(std::vector<std::int64_t>{0});
  EXPECT_EQ(values(parts.bags[0].ids), (std::vector{3, 2, 4, 3, 5, 4}));
  EXPECT_EQ(values(parts.bags[1].ids), (std::vector{2, 3, 4, 5}));
  EXPECT_EQ(values(parts.bags[2].ids), (std::vector{1, 2, 2, 1}));
}

TEST(WordPairs, DependOnlyOnTheRandomGenerator) {
  const TokenSequence text = text_of(997);
  for (const WordPairOptions& options : kinds()) {
    const WordPairs pairs(text, options);
    const DataLoader loader(pairs, {.batch = 8, .shuffle = true});
    const auto read = [&](std::size_t batch) {
      return all_values(loader.epoch(3).read(batch, {.index = 1, .count = 2}));
    };
    const auto first = read(2);
    // Batches without a generator do not depend on earlier draws, nor on the object.
    const auto blocks = all_values(WordPairs(text, options).batch(all_blocks(pairs)));
    for (const int threads : {1, 2, 3}) {
      const Threads use(threads);
      EXPECT_EQ(read(2), first);
      EXPECT_EQ(all_values(pairs.batch(all_blocks(pairs))), blocks);
    }
    EXPECT_NE(read(1), first);
    // Blocks draw from streams of their own: other blocks do not change their pairs.
    Random one(5), two(5);
    const Batch some = pairs.draw(std::vector<std::int64_t>{4}, one),
                more = pairs.draw(std::vector<std::int64_t>{4, 2}, two);
    for (std::size_t i = 0; i < some.bags.size(); ++i)
      EXPECT_EQ(bag(some.bags[i], 0), bag(more.bags[i], 0));
  }
}

TEST(WordPairs, DrawWithTheProbabilitiesOfWord2vec) {
  const TokenSequence text = text_of(40'000);
  const std::vector<std::uint64_t> counts = id_counts(text, kWords);
  const WordPairs pairs(text, {.vocabulary = kWords,
                               .block = 2000,
                               .window = 4,
                               .subsample = 0.01,
                               .negatives = 3,
                               .cbow = true});
  Random random(1);
  std::vector<double> kept(kWords), drawn(kWords), windows(9);
  constexpr int kDraws = 10;
  for (int i = 0; i < kDraws; ++i) {
    const Batch batch = pairs.draw(all_blocks(pairs), random);
    for (const std::int32_t id : batch.bags[1].ids) kept[static_cast<std::size_t>(id)] += 1;
    for (const std::int32_t id : batch.bags[2].ids) drawn[static_cast<std::size_t>(id)] += 1;
    for (const std::int32_t size : batch.bags[3].ids) windows[static_cast<std::size_t>(size)] += 1;
  }
  const double words = std::accumulate(kept.begin(), kept.end(), 0.0);
  double weights = 0;
  for (const std::uint64_t count : counts) weights += std::pow(count, 0.75);
  for (std::size_t i = 0; i < kWords; ++i) {
    const double f = static_cast<double>(counts[i]) / 40'000,
                 p = std::min(1.0, std::sqrt(0.01 / f) + 0.01 / f),
                 expected = kDraws * p * static_cast<double>(counts[i]);
    EXPECT_NEAR(kept[i], expected, 5 * std::sqrt(expected * (1 - p)) + 1e-9) << i;
    const double negatives = 3 * words * std::pow(counts[i], 0.75) / weights;
    EXPECT_NEAR(drawn[i], negatives, 5 * std::sqrt(negatives)) << i;
  }
  for (const std::size_t size : {2, 4, 6, 8})  // except at the borders of blocks
    EXPECT_NEAR(windows[size] / words, 0.25, 0.01) << size;
}

TEST(WordPairs, RejectInvalidOptions) {
  const TokenSequence text = Ids{0, 1, 2, 3};
  const auto make = [&](auto change) {
    WordPairOptions options{.vocabulary = 4};
    change(options);
    return WordPairs(text, options);
  };
  EXPECT_INVALID("WordPairs: window is 0, expected 1 to 2147483647",
                 make([](auto& o) { o.window = 0; }));
  EXPECT_INVALID("WordPairs: block is -1, expected 1 to 2147483647",
                 make([](auto& o) { o.block = static_cast<std::size_t>(-1); }));
  EXPECT_INVALID("WordPairs: negatives is 0, expected 1 to 2147483647",
                 make([](auto& o) { o.negatives = 0; }));
  for (const double rate : {-1.0, std::nan(""), static_cast<double>(kInfinity)})
    EXPECT_INVALID(concat("WordPairs: subsample is ", rate, ", expected a finite number >= 0"),
                   make([&](auto& o) { o.subsample = rate; }));
  EXPECT_INVALID("id_counts: id 3 at index 3 is out of range: the vocabulary has 3 tokens",
                 make([](auto& o) { o.vocabulary = 3; }));
  EXPECT_INVALID("id_counts: id 2 at index 2 is out of range: the vocabulary has 2 tokens",
                 make([](auto& o) {
                   o.counts = {5, 5};
                 }));
  EXPECT_INVALID("WordPairs: left_out has the id 4, expected ids of the vocabulary of 4 tokens",
                 make([](auto& o) { o.left_out = {4}; }));
  EXPECT_INVALID("WordPairs: the text has no words, expected at least two", make([](auto& o) {
                   o.left_out = {0, 1, 2, 3};
                 }));
  EXPECT_INVALID(
      "WordPairs: no block of 4 tokens has two words without a border between them, expected at "
      "least one pair",
      make([](auto& o) {
        o.block = 4;
        o.left_out = {0, 1, 2};
      }));
  EXPECT_INVALID("WordPairs: block 1 is out of range: there are 1 blocks",
                 make([](auto&) {}).batch(std::vector<std::int64_t>{1}));
  // A loader does not resume with other draws.
  const DataLoader loader(make([](auto&) {}));
  const DataLoader other(make([](auto& o) { o.subsample = 0.5; }));
  Random random(1);
  EXPECT_THROW(other.progress(loader.state_dict(loader.start(0, random))), std::invalid_argument);
}

}  // namespace
