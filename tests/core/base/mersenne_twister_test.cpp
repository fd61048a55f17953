#include "tests/test.hpp"

namespace {

TEST(MersenneTwister, DrawsTheNumbersOfTheStandardLibrarys) {
  for (const std::uint32_t seed : {0U, 1U, 5489U, 4294967295U}) {
    std::mt19937 expected(seed);
    MersenneTwister engine(seed);
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(engine(), expected()) << seed << ' ' << i;
  }
}

TEST(MersenneTwister, FillsAnyNumberOfWordsFromAnyPlace) {
  std::mt19937 expected(5);
  MersenneTwister engine(5);
  for (const std::size_t count :
       {1U, 3U, 10U, 624U, 623U, 1U, 625U, 0U, 1248U, 5000U, 7U, 1247U, 1871U, 2U}) {
    std::vector<std::uint32_t> words(count);
    engine.fill_untempered(words);
    for (const std::uint32_t word : words)
      ASSERT_EQ(MersenneTwister::temper(word), expected()) << count;
    ASSERT_EQ(engine(), expected()) << "after " << count;
  }
}

TEST(MersenneTwister, TempersTwoWordsAtOnce) {
  MersenneTwister engine(3);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t low = engine();
    const std::uint64_t high = engine();
    EXPECT_EQ(MersenneTwister::temper_both(high << 32 | low),
              std::uint64_t{MersenneTwister::temper(static_cast<std::uint32_t>(high))} << 32 |
                  MersenneTwister::temper(static_cast<std::uint32_t>(low)));
  }
}

TEST(MersenneTwister, GoesOnFromItsWords) {
  std::mt19937 expected(9);
  MersenneTwister engine(9);
  for (const int draws : {0, 700, 548, 3}) {
    for (int i = 0; i < draws; ++i) ASSERT_EQ(engine(), expected());
    MersenneTwister other(engine.words(), engine.next());
    std::mt19937 same = expected;
    for (int i = 0; i < 1300; ++i) ASSERT_EQ(other(), same()) << draws;
  }
}

}  // namespace
