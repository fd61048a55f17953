#include "tests/test.hpp"

namespace {

// Returns the ids 10, 11, 12 …
Ids counting(std::size_t count) {
  Ids32 ids(count);
  std::iota(ids.begin(), ids.end(), 10);
  return to_ids(ids);
}

TEST(TokenWindows, StartsAWindowAtEveryStrideThatLeavesALastTarget) {
  struct Case {
    std::size_t tokens;
    std::size_t context;
    std::size_t stride;
    Ids32 starts;
  };
  const std::vector<Case> cases = {
      {10, 4, 4, {0, 4}},  // no window at 8, as 8 < 10 - 4 is false
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
      Ids32 expected(c.context);
      std::iota(expected.begin(), expected.end(), 10 + c.starts[static_cast<std::size_t>(i)]);
      const Batch batch = windows.batch({&i, 1});
      EXPECT_EQ(values(batch.inputs()), expected);
      for (std::int32_t& id : expected) ++id;
      EXPECT_EQ(values(batch.targets()), expected);
    }
  }
}

TEST(TokenWindows, RejectsInvalidWindows) {
  struct Case {
    std::size_t tokens;
    WindowOptions options;
    std::string message;
  };
  const std::vector<Case> cases = {
      {9, {.context = 0, .stride = 4}, "context is 0, expected at least 1"},
      {9, {.context = 4}, "stride is 0, expected at least 1"},
      {9, {.context = 4, .stride = ~std::size_t{0}}, "stride is -1, expected at least 1"},
      {9, {.context = ~std::size_t{1}, .stride = 4}, "context is -2, expected at least 1"},
      {0,
       {.context = 4, .stride = 4},
       "there are 0 tokens, expected at least 4 + 1, a window of context 4 and its last target"},
      {4,
       {.context = 4, .stride = 4},
       "there are 4 tokens, expected at least 4 + 1, a window of context 4 and its last target"},
  };
  for (const Case& c : cases)
    EXPECT_INVALID("TokenWindows: " + c.message, TokenWindows(counting(c.tokens), c.options));
  EXPECT_INVALID("TokenWindows: there are 1 targets for 2 tokens, expected one per token",
                 TokenWindows(counting(2), counting(1), {.context = 1, .stride = 1}));
  EXPECT_INVALID("TokenWindows: there are 2 tokens, expected at least 3, one window",
                 TokenWindows(counting(2), counting(2), {.context = 3, .stride = 1}));
  const TokenWindows two(counting(10), {.context = 4, .stride = 4});
  for (const std::int64_t i : {-1, 2})
    EXPECT_INVALID(concat("TokenWindows: window ", i, " is out of range: there are 2 windows"),
                   two.batch({&i, 1}));
}

TEST(Split, UsesTheLastPartForValidation) {
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
    for (std::size_t i = 0; i < c.tokens; ++i)
      EXPECT_EQ((i < c.train ? parts.train.ids()(i) : parts.validation.ids()(i - c.train)), ids(i));
  }
}

TEST(Split, RejectsFractionsOutsideZeroToOne) {
  for (const double fraction : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_INVALID(
        concat("split: validation_fraction is ", fraction, ", expected at least 0 and less than 1"),
        split(counting(9), fraction));
}

TEST(UnigramLoss, IsTheCrossEntropyOfSmoothedCounts) {
  // Counts: 2 + 1, 1 + 1 and 0 + 1, out of 3 + 3.
  const double expected = -(std::log(3.0 / 6) + std::log(1.0 / 6)) / 2;
  EXPECT_NEAR(unigram_loss(Ids{0, 0, 1}, Ids{0, 2}, 3), expected, 1e-12);
  EXPECT_INVALID("id_counts: id 3 at index 1 is out of range: the vocabulary has 3 tokens",
                 unigram_loss(Ids{0, 3}, Ids{0}, 3));
  EXPECT_INVALID("id_counts: id -1 at index 2 is out of range: the vocabulary has 3 tokens",
                 unigram_loss(Ids{0}, Ids{0, 2, -1}, 3));
  EXPECT_INVALID("unigram_loss: text is empty, expected at least one id",
                 unigram_loss(Ids{0}, Ids(), 3));
}

}  // namespace
