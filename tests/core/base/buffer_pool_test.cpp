#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/process.hpp"
#include "tests/test.hpp"

namespace {

// Under AddressSanitizer, the pool keeps no idle blocks, so that the sanitizer detects uses after
// free.
#if defined(ROWGRAD_ADDRESS_SANITIZER)
constexpr bool kKeepsBlocks = false;
#else
constexpr bool kKeepsBlocks = true;
#endif

constexpr std::size_t kPage = std::size_t{64} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kMebibyte = std::size_t{1} << 20;

bool aligned(const void* block, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

TEST(BufferPool, AlignsBlocksAndWastesAtMostAQuarterOrOnePage) {
  std::vector<std::size_t> sizes{0, 63, 64, 65, 192, 4096, kHugePage - 1, kHugePage, 3 * kHugePage};
  const std::size_t most = kKeepsBlocks ? std::size_t{1} << 32 : kMebibyte;
  for (std::size_t bytes = 1; bytes < most; bytes += 1 + bytes / 13) sizes.push_back(bytes);
  for (const std::size_t bytes : sizes) {
    const std::size_t before = BufferPool::statistics().bytes_in_use;
    void* block = BufferPool::allocate(bytes);
    const std::size_t taken = BufferPool::statistics().bytes_in_use - before;
    EXPECT_TRUE(aligned(block, 64)) << bytes;
    // AddressSanitizer reports writes outside the block.
    if (bytes <= 3 * kHugePage) std::memset(block, 1, bytes);
    BufferPool::deallocate(block, bytes);
    if (bytes >= kMebibyte) BufferPool::release_idle();
    EXPECT_GE(taken, bytes);
    if (kKeepsBlocks && bytes >= kMebibyte) {
      EXPECT_LT(taken, bytes + kPage);
    } else {
      // Sizes are rounded up to whole cache lines, and then by at most a quarter.
      const std::size_t lines = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
      EXPECT_LE(taken, lines + lines / 4) << bytes;
    }
  }
}

TEST(BufferPool, ReportsStatisticsAndReleasesIdleBlocks) {
  BufferPool::release_idle();
  const auto before = BufferPool::statistics();
  void* held = BufferPool::allocate(5000);
  std::memset(held, 7, 5000);
  const auto lend_another = [] {
    BufferPool::deallocate(BufferPool::allocate(7000), 7000);
    return BufferPool::statistics();
  };
  const auto during = lend_another();
  EXPECT_GE(during.bytes_in_use, before.bytes_in_use + 5000);
  EXPECT_GE(during.bytes_idle, kKeepsBlocks ? 7000U : 0U);
  EXPECT_EQ(lend_another().system_requests, during.system_requests + (kKeepsBlocks ? 0 : 1));
  BufferPool::release_idle();
  const auto released = BufferPool::statistics();
  EXPECT_EQ(released.bytes_idle, 0U);
  EXPECT_EQ(released.bytes_in_use, during.bytes_in_use);
  EXPECT_EQ(static_cast<unsigned char*>(held)[4999], 7);
  EXPECT_EQ(lend_another().system_requests, released.system_requests + 1);
  BufferPool::release_idle();
  BufferPool::deallocate(held, 5000);
  const auto after = BufferPool::statistics();
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(after.bytes_idle, kKeepsBlocks ? during.bytes_in_use - before.bytes_in_use : 0U);
}

TEST(BufferPool, ReusesFreedLargeBlocksForAnySize) {
  if (!kKeepsBlocks) GTEST_SKIP() << "the pool keeps no blocks under AddressSanitizer";
  BufferPool::release_idle();
  // In this order, freed blocks join a free block before them, after them, or on both sides.
  std::vector<void*> thirds;
  for (int i = 0; i < 9; ++i) thirds.push_back(BufferPool::allocate(3 * kMebibyte));
  for (const int i : {0, 2, 1, 5, 4, 3, 8, 6, 7})
    BufferPool::deallocate(thirds[static_cast<std::size_t>(i)], 3 * kMebibyte);
  const auto before = BufferPool::statistics();
  std::vector<std::pair<char*, std::size_t>> blocks;
  for (const std::size_t mebibytes : {11, 1, 7, 2, 5, 1}) {
    char* const block = static_cast<char*>(BufferPool::allocate(mebibytes * kMebibyte));
    std::memset(block, static_cast<int>(mebibytes), mebibytes * kMebibyte);
    blocks.emplace_back(block, mebibytes * kMebibyte);
  }
  const auto after = BufferPool::statistics();
  EXPECT_EQ(after.system_requests, before.system_requests);
  EXPECT_EQ(after.bytes_in_use + after.bytes_idle, before.bytes_in_use + before.bytes_idle);
  for (const auto& [block, bytes] : blocks) {  // the blocks do not overlap
    EXPECT_EQ(block[0], static_cast<char>(bytes / kMebibyte));
    EXPECT_EQ(block[bytes - 1], static_cast<char>(bytes / kMebibyte));
    BufferPool::deallocate(block, bytes);
  }
  EXPECT_EQ(BufferPool::statistics().bytes_idle, before.bytes_idle);
}

// Returns how many of the bytes are in memory, in whole pages.
std::size_t resident_bytes(char* block, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(getpagesize());
  std::vector<unsigned char> resident(bytes / page);
  EXPECT_EQ(mincore(block, resident.size() * page, resident.data()), 0);
  return page * static_cast<std::size_t>(std::count(resident.begin(), resident.end(), 1));
}

TEST(BufferPool, ClearsLargeBlocksWithoutUsingMemory) {
  constexpr std::size_t kBytes = 9 * kMebibyte + 100;
  for (const std::size_t bytes : {kBytes, std::size_t{5000}}) {
    char* const block = static_cast<char*>(BufferPool::allocate(bytes));
    std::memset(block, 1, bytes);
    BufferPool::clear(block, bytes);
    if (kKeepsBlocks && bytes == kBytes) {
      const std::size_t whole = kBytes / kPage * kPage;
      EXPECT_EQ(resident_bytes(block, whole), 0U);
      block[2 * kHugePage] = 0;
      EXPECT_EQ(resident_bytes(block, whole), static_cast<std::size_t>(getpagesize()));
    }
    EXPECT_EQ(std::count(block, block + bytes, 0), static_cast<std::ptrdiff_t>(bytes));
    BufferPool::deallocate(block, bytes);
  }
}

TEST(BufferPool, UsesHugePagesAgainAfterASparseBlock) {
  if (!kKeepsBlocks) GTEST_SKIP() << "there are no large blocks under AddressSanitizer";
  constexpr std::size_t kBytes = 64 * kMebibyte;
  const auto has_huge_pages = [](bool sparse) {
    BufferPool::release_idle();
    void* const block = BufferPool::allocate(kBytes);
    if (sparse) BufferPool::clear(block, kBytes);
    BufferPool::deallocate(block, kBytes);
    char* const again = static_cast<char*>(BufferPool::allocate(kBytes));
    EXPECT_EQ(again, block);
    for (std::size_t i = 0; i < kBytes; i += kHugePage) again[i] = 1;
    const std::size_t resident = resident_bytes(again, kBytes);
    BufferPool::deallocate(again, kBytes);
    return resident >= kBytes / 2;
  };
  if (!has_huge_pages(false)) GTEST_SKIP() << "this system provides no huge pages";
  EXPECT_TRUE(has_huge_pages(true));
}

TEST(BufferPool, ThrowsForImpossibleSizes) {
  const auto before = BufferPool::statistics();
  EXPECT_THROW(BufferPool::allocate(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  // The size of the second block would wrap to 8 bytes.
  for (const std::size_t count : {std::size_t{1} << 60, (std::size_t{1} << 61) + 1})
    EXPECT_THROW(PoolAllocator<std::uint64_t>().allocate(count), std::bad_alloc);
  BufferPool::deallocate(nullptr, 64);  // accepts nullptr, like free()
  EXPECT_EQ(BufferPool::statistics().bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(BufferPool::statistics().system_requests, before.system_requests);
}

TEST(BufferPool, ReleasesIdleBlocksBeforeItFails) {
  for (const std::size_t refusals : {1U, 2U}) {
    void* idle = BufferPool::allocate(100000);
    const std::size_t in_use = BufferPool::statistics().bytes_in_use;
    const FailingAllocations failing(1, refusals);
    BufferPool::deallocate(idle, 100000);  // after the line above, which empties the pool
    void* block = nullptr;
    if (refusals == 1) {
      EXPECT_NO_THROW(block = BufferPool::allocate(5000));
      BufferPool::deallocate(block, 5000);
    } else {
      EXPECT_THROW(block = BufferPool::allocate(5000), std::bad_alloc);
      EXPECT_EQ(BufferPool::statistics().bytes_idle, 0U);
    }
    EXPECT_LT(BufferPool::statistics().bytes_idle, 100000U);
    EXPECT_LT(BufferPool::statistics().bytes_in_use, in_use);
  }
}

TEST(BufferPool, MapsOnlyTheBlockIfAddressSpaceIsScarce) {
  if (!kKeepsBlocks) GTEST_SKIP() << "there are no large blocks under AddressSanitizer";
  BufferPool::release_idle();
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  char* block = nullptr;
  {
    const ResourceLimit few(RLIMIT_AS,
                            pages * static_cast<std::size_t>(getpagesize()) + 4 * kMebibyte);
    EXPECT_NO_THROW(block = static_cast<char*>(BufferPool::allocate(kMebibyte)));
    EXPECT_THROW(BufferPool::allocate(4 * kMebibyte), std::bad_alloc);
  }
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(aligned(block, kPage));
  std::memset(block, 1, kMebibyte);
  BufferPool::deallocate(block, kMebibyte);
}

}  // namespace
