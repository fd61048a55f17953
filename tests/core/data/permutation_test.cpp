#include "tests/test.hpp"

namespace {

std::vector<std::uint64_t> order(std::uint64_t size, std::uint64_t seed) {
  const IndexPermutation permutation(size, seed);
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < size; ++i) all.push_back(permutation(i));
  return all;
}

TEST(IndexPermutation, HasEveryIndexOnce) {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 1000, 1024, 1025, 70'000})
    for (const std::uint64_t seed : {0, 1}) {
      std::vector<std::uint64_t> sorted = order(size, seed);
      std::sort(sorted.begin(), sorted.end());
      for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(sorted[i], i) << size;
    }
}

TEST(IndexPermutation, IsTheSameOnEveryMachine) {
  EXPECT_EQ(order(10, 123), (std::vector<std::uint64_t>{8, 3, 4, 6, 0, 5, 1, 9, 2, 7}));
  const IndexPermutation large(1'000'000'000'000, 7);
  EXPECT_EQ(large(0), 321525552060U);
  EXPECT_EQ(large(999'999'999'999), 397375602202U);
}

TEST(IndexPermutation, DependsOnItsSeed) {
  EXPECT_NE(order(50, 0), order(50, 1));
  EXPECT_NE(order(50, 0), order(50, std::uint64_t{1} << 63));
}

// Of a random order, each statistic below has the given mean and a deviation of some 2 to 3 units
// of the bound's sixth part; a seed that is fixed cannot fail by chance later.
TEST(IndexPermutation, LooksRandom) {
  constexpr std::uint64_t kSize = 100'000;
  const std::vector<std::uint64_t> all = order(kSize, 3);
  std::size_t fixed = 0, rising = 0, neighbours = 0;
  for (std::uint64_t i = 0; i + 1 < kSize; ++i) {
    fixed += all[i] == i;
    rising += all[i] < all[i + 1];
    neighbours += all[i] + 1 == all[i + 1];
  }
  EXPECT_LE(fixed, 6U);                                   // mean 1, deviation 1
  EXPECT_LE(neighbours, 6U);                              // the same
  EXPECT_NEAR(static_cast<double>(rising), 50'000, 500);  // deviation sqrt(n / 12) = 91
  // Places of 100 equal stretches, from which indices come: each pair of stretches meets 10 times.
  std::vector<double> met(10'000);
  for (std::uint64_t i = 0; i < kSize; ++i) ++met[i / 1000 * 100 + all[i] / 1000];
  double chi_squared = 0;
  for (const double count : met) chi_squared += (count - 10) * (count - 10) / 10;
  EXPECT_NEAR(chi_squared, 9801, 6 * 140);  // 99² degrees of freedom, deviation sqrt(2 · 99²)
}

TEST(IndexPermutation, RefusesWhatIsOutside) {
  EXPECT_INVALID("IndexPermutation: size is 0, expected 1 to 2^62", IndexPermutation(0, 1));
  EXPECT_INVALID("IndexPermutation: index 5 is outside the 5", IndexPermutation(5, 1)(5));
}

}  // namespace
