#include "tests/test.hpp"
#include <rowgrad/core/base/zeroed_allocator.hpp>

namespace {

TEST(ZeroedAllocator, ReturnsZerosFromReusedMemory) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{1} << 20}) {
    { const std::vector<std::uint64_t, PoolAllocator<std::uint64_t>> dirty(count, 7); }
    std::vector<std::uint64_t, ZeroedAllocator<std::uint64_t>> zeros(count);
    EXPECT_EQ(std::ranges::count(zeros, 0U), static_cast<std::ptrdiff_t>(count));
    zeros[1] = 5;
    zeros.resize(2 * count);
    EXPECT_EQ(zeros[1], 5U);
    EXPECT_EQ(std::ranges::count(zeros, 0U), static_cast<std::ptrdiff_t>(2 * count - 1));
  }
}

}  // namespace
