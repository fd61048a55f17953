#include "tests/test.hpp"

namespace {

// One number after another, any number of words at once, two at once, and from its own words.
TEST(MersenneTwister, DrawsTheNumbersOfTheStandardLibrarys) {
  for (const std::uint32_t seed : {0U, 1U, 5489U, 4294967295U}) {
    std::mt19937 expected(seed);
    MersenneTwister engine(seed);
    for (const std::size_t count :
         {1U, 3U, 10U, 624U, 623U, 1U, 625U, 0U, 1248U, 5000U, 7U, 1247U, 1871U, 2U}) {
      std::vector<std::uint32_t> words(count);
      engine.fill_untempered(words);
      for (const std::uint32_t word : words)
        ASSERT_EQ(MersenneTwister::temper(word), expected()) << count;
      for (int i = 0; i < 700; ++i) ASSERT_EQ(engine(), expected()) << "after " << count;
      engine = MersenneTwister(engine.words(), engine.next());
      std::array<std::uint32_t, 2> pair;
      engine.fill_untempered(pair);
      const std::uint64_t low = expected(), high = expected();
      ASSERT_EQ(MersenneTwister::temper_both(std::uint64_t{pair[1]} << 32 | pair[0]),
                high << 32 | low);
    }
  }
}

}  // namespace
