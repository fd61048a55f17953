// Tests orders of examples: the list of torch.randperm, and permutations computed by index.

#include <bit>

#include "tests/test.hpp"
#include <rowgrad/core/data/example_order.hpp>

namespace {

// Returns true if permutation(0) … permutation(count − 1) are 0 … count − 1 in some order.
bool is_permutation(const auto& permutation, std::uint64_t count) {
  std::vector<std::uint64_t> seen((count + 63) / 64);
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::uint64_t>(permutation(i));
    if (number >= count) return false;
    seen[number / 64] |= std::uint64_t{1} << (number % 64);
  }
  for (const std::uint64_t bits : seen) found += static_cast<std::uint64_t>(std::popcount(bits));
  return found == count;
}

TEST(KeyedPermutation, VisitsEachIndexOnce) {
  for (std::uint64_t count = 1; count <= 300; ++count)
    EXPECT_TRUE(is_permutation(KeyedPermutation(count, 5 * count), count)) << count;
  for (const std::uint64_t count : {std::uint64_t{1} << 20, (std::uint64_t{1} << 20) + 1})
    EXPECT_TRUE(is_permutation(KeyedPermutation(count, 7), count)) << count;
}

// Expects equal probabilities of all bins, by a chi-square test. With d degrees of freedom,
// chi-square has mean d and variance 2d. By chance, fewer than one in ten thousand lists of counts
// deviates by more than six standard deviations. The keys are fixed, so the result is always the
// same.
void expect_uniform(const std::vector<std::uint64_t>& counts, const char* what) {
  double total = 0, chi = 0;
  for (const std::uint64_t count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  for (const std::uint64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    chi += off * off / expected;
  }
  const double degrees = static_cast<double>(counts.size()) - 1;
  EXPECT_LT(std::abs(chi - degrees), 6 * std::sqrt(2 * degrees)) << what << ", mean " << expected;
}

TEST(KeyedPermutation, IsUniformOverKeysAndNeighbours) {
  constexpr std::uint64_t kCount = 20'000'003, kBins = 16, kKeys = 40'000;
  const auto bin = [](std::uint64_t number) { return number * kBins / kCount; };
  std::vector<std::uint64_t> one(kBins), pairs(kBins * kBins), keys(kBins * kBins),
      differences(kBins);
  for (std::uint64_t key = 0; key < kKeys; ++key) {  // the same positions under many keys
    const KeyedPermutation permutation(kCount, key);
    ++one[bin(permutation(0))];
    ++pairs[bin(permutation(0)) * kBins + bin(permutation(1))];
    ++keys[bin(permutation(5)) * kBins + bin(KeyedPermutation(kCount, key + 1)(5))];
  }
  const KeyedPermutation permutation(kCount, 1);
  std::vector<std::uint64_t> neighbours(kBins * kBins);
  for (std::uint64_t i = 0; i + 1 < 100'000; i += 2) {  // many positions under one key
    const std::uint64_t a = permutation(i), b = permutation(i + 1);
    ++neighbours[bin(a) * kBins + bin(b)];
    ++differences[bin((b + kCount - a) % kCount)];
  }
  expect_uniform(one, "the first");
  expect_uniform(pairs, "the first two");
  expect_uniform(keys, "one position under neighbouring keys");
  expect_uniform(neighbours, "neighbours");
  expect_uniform(differences, "differences of neighbours");
}

TEST(ExampleOrder, EqualsRandpermUpTo2To24Examples) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{1000}}) {
    const ExampleOrder order(count, 123);
    const auto expected = Random(123).permutation(static_cast<std::int64_t>(count));
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(order[i], expected[i]) << count << ' ' << i;
  }
  const ExampleOrder order(ExampleOrder::kMaxListed, 9);
  Random random(9);  // torch.randperm first draws the index of the first element
  EXPECT_EQ(order[0], random.bits() % ExampleOrder::kMaxListed);
}

// The order must never change between versions, so that saved runs can resume.
TEST(ExampleOrder, UsesNoListForMoreExamples) {
  constexpr std::size_t kCount = ExampleOrder::kMaxListed + 1;
  const ExampleOrder order(kCount, 9);
  EXPECT_TRUE(is_permutation([&](std::uint64_t i) { return order[i]; }, kCount));
  const ExampleOrder large(100'000'000, 9);
  std::vector<std::int64_t> first;
  for (std::size_t i = 0; i < 5; ++i) first.push_back(large[i]);
  EXPECT_EQ(first, (std::vector<std::int64_t>{74918131, 75112872, 70777861, 5437678, 58838885}));
}

}  // namespace
