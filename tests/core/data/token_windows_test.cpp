#include "tests/test.hpp"

namespace {

using Numbers = std::vector<std::int32_t>;

// The ids 10, 11, 12 …
Ids counting(std::size_t count) {
  Numbers ids(count);
  std::iota(ids.begin(), ids.end(), 10);
  return to_ids(ids);
}

TEST(TokenWindows, StartsAWindowAtEveryStrideThatLeavesALastTarget) {
  struct Case {
    std::size_t tokens;
    std::size_t context;
    std::size_t stride;
    std::vector<std::int32_t> starts;
  };
  const std::vector<Case> cases = {
      {10, 4, 4, {0, 4}},  // 8 is no start: 8 < 10 - 4 is false
      {9, 4, 4, {0, 4}},   // the last window just fits
      {8, 4, 4, {0}},     {10, 4, 1, {0, 1, 2, 3, 4, 5}},
      {10, 4, 3, {0, 3}}, {10, 2, 5, {0, 5}},  // a stride beyond the context skips ids
      {10, 4, 100, {0}},  {5, 4, 1, {0}},
      {2, 1, 1, {0}},     {3, 1, 1, {0, 1}},
  };
  for (const Case& c : cases) {
    const TokenWindows windows(counting(c.tokens), {.context = c.context, .stride = c.stride});
    ASSERT_EQ(windows.size(), c.starts.size());
    for (std::int64_t i = 0; i < std::ssize(c.starts); ++i) {
      Numbers expected(c.context);
      std::iota(expected.begin(), expected.end(), 10 + c.starts[static_cast<std::size_t>(i)]);
      const Batch batch = windows.batch({&i, 1});
      EXPECT_EQ(values(batch.inputs()), expected);
      for (std::int32_t& id : expected) ++id;
      EXPECT_EQ(values(batch.targets()), expected);
    }
  }
}

TEST(TokenWindows, RefusesWhatGivesNoWindow) {
  struct Case {
    Ids ids;
    WindowOptions options;
    std::string message;
  };
  const std::vector<Case> cases = {
      {counting(9), {.context = 0, .stride = 4}, "context is 0, expected at least 1"},
      {counting(9), {.context = 4}, "stride is 0, expected at least 1"},
      {counting(0),
       {.context = 4, .stride = 4},
       "the text has 0 tokens, but a window of context 4 needs 4 + 1, the last one as a target"},
      {counting(4),
       {.context = 4, .stride = 4},
       "the text has 4 tokens, but a window of context 4 needs 4 + 1, the last one as a target"},
  };
  for (const Case& c : cases)
    EXPECT_INVALID("TokenWindows: " + c.message, TokenWindows(c.ids, c.options));
  EXPECT_INVALID("TokenSequence: ids has shape [2, 2], expected rank 1",
                 TokenSequence(Ids{{1, 2}, {3, 4}}));
}

TEST(TokenWindows, RefusesAWindowThatIsNotThere) {
  const TokenWindows windows(counting(10), {.context = 4, .stride = 4});
  for (const std::int64_t i : {-1, 2, 3}) {
    const std::string message =
        "TokenWindows: window " + std::to_string(i) + " is outside the 2 windows";
    EXPECT_INVALID(message, windows.batch({&i, 1}));
  }
}

TEST(Split, GivesTheLastPartToValidation) {
  struct Case {
    std::size_t tokens;
    double fraction;
    std::size_t train;
  };
  const std::vector<Case> cases = {{10, 0.1, 9}, {10, 0.25, 7}, {10, 0, 10},   {10, 0.99, 0},
                                   {0, 0.5, 0},  {1, 0.5, 0},   {100, 0.3, 70}};
  for (const Case& c : cases) {
    const Ids ids = counting(c.tokens);
    const Split parts = split(ids, c.fraction);
    EXPECT_EQ(parts.train.size(), c.train) << c.tokens << " " << c.fraction;
    Numbers joined = values(parts.train.ids());
    const Numbers validation = values(parts.validation.ids());
    joined.insert(joined.end(), validation.begin(), validation.end());
    EXPECT_EQ(joined, values(ids));
  }
}

TEST(Split, RefusesFractionsOutsideZeroToOne) {
  for (const double fraction : {-0.1, 1.0, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    const std::string message =
        error_of<std::invalid_argument>([&] { split(counting(9), fraction); });
    EXPECT_TRUE(message.starts_with("split: validation_fraction ")) << message;
    EXPECT_TRUE(message.ends_with(" is outside [0, 1)")) << message;
  }
}

TEST(UnigramLoss, IsTheCrossEntropyOfSmoothedCounts) {
  // Counts 2 + 1, 1 + 1, 0 + 1 of 3 + 3.
  const double expected = -(std::log(3.0 / 6) + std::log(1.0 / 6)) / 2;
  EXPECT_NEAR(unigram_loss(Ids{0, 0, 1}, Ids{0, 2}, 3), expected, 1e-12);
}

}  // namespace
