#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/test.hpp"

namespace {

// Under AddressSanitizer the pool keeps nothing, so that a use after free is seen.
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

TEST(BufferPool, AlignsBlocksToCacheLines) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
        std::size_t{192}, std::size_t{1000}, std::size_t{4096}, std::size_t{100001}, kHugePage - 1,
        kHugePage, kHugePage + 1, 3 * kHugePage}) {
    void* block = BufferPool::allocate(bytes);
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_TRUE(aligned(block, 64)) << bytes;
    std::memset(block, 1, bytes);  // AddressSanitizer would object if not all of it were ours
    BufferPool::deallocate(block, bytes);
  }
}

TEST(BufferPool, WastesAQuarterAtMost) {
  for (std::size_t bytes = 64; bytes < 1 << 20; bytes += 1 + bytes / 7) {
    const std::size_t before = BufferPool::statistics().bytes_in_use;
    void* block = BufferPool::allocate(bytes);
    const std::size_t taken = BufferPool::statistics().bytes_in_use - before;
    BufferPool::deallocate(block, bytes);
    EXPECT_GE(taken, bytes);
    // Sizes are rounded up to whole cache lines, and then to steps of at most a quarter.
    const std::size_t lines = (bytes + 63) / 64 * 64;
    EXPECT_LE(taken, lines + lines / 4) << bytes;
  }
}

TEST(BufferPool, WastesLessThanAPageOfLargeBlocks) {
  if (!kKeepsBlocks) GTEST_SKIP() << "there are no large blocks under AddressSanitizer";
  for (std::size_t bytes = 1 << 20; bytes < std::size_t{1} << 33; bytes += 1 + bytes / 37) {
    const std::size_t before = BufferPool::statistics().bytes_in_use;
    void* block = BufferPool::allocate(bytes);  // of which no page is touched
    const std::size_t taken = BufferPool::statistics().bytes_in_use - before;
    BufferPool::deallocate(block, bytes);
    BufferPool::release_idle();
    EXPECT_GE(taken, bytes);
    EXPECT_LT(taken, bytes + kPage) << bytes;
  }
}

TEST(BufferPool, CountsWhatIsInUseAndWhatIsIdle) {
  const auto before = BufferPool::statistics();
  void* block = BufferPool::allocate(5000);
  const auto during = BufferPool::statistics();
  BufferPool::deallocate(block, 5000);
  const auto after = BufferPool::statistics();
  EXPECT_GE(during.bytes_in_use, before.bytes_in_use + 5000);
  EXPECT_EQ(after.bytes_in_use, before.bytes_in_use);
  if (kKeepsBlocks) {
    EXPECT_EQ(after.bytes_idle, during.bytes_idle + during.bytes_in_use - before.bytes_in_use);
  } else {
    EXPECT_EQ(after.bytes_idle, 0U);
  }
}

TEST(BufferPool, ServesLargeRequestsOfAnySizeFromWhatOthersLeft) {
  if (!kKeepsBlocks) GTEST_SKIP() << "the pool keeps nothing under AddressSanitizer";
  BufferPool::release_idle();
  // Freed in an order in which each joins a neighbour before it, after it, or on both sides.
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
  for (const auto& [block, bytes] : blocks) {  // nobody else wrote there
    EXPECT_EQ(block[0], static_cast<char>(bytes / kMebibyte));
    EXPECT_EQ(block[bytes - 1], static_cast<char>(bytes / kMebibyte));
    BufferPool::deallocate(block, bytes);
  }
  EXPECT_EQ(BufferPool::statistics().bytes_idle, before.bytes_idle);
}

TEST(BufferPool, ClearsALargeBlockWithoutTakingMemoryForIt) {
  constexpr std::size_t kBytes = 9 * kMebibyte + 100;
  for (const std::size_t bytes : {kBytes, std::size_t{5000}}) {
    char* const block = static_cast<char*>(BufferPool::allocate(bytes));
    std::memset(block, 1, bytes);
    BufferPool::clear(block, bytes);
    if (kKeepsBlocks && bytes == kBytes) {
      const std::size_t whole = kBytes / kPage * kPage;
      std::vector<unsigned char> resident(whole / static_cast<std::size_t>(getpagesize()));
      ASSERT_EQ(mincore(block, whole, resident.data()), 0);
      EXPECT_EQ(std::count(resident.begin(), resident.end(), 1), 0);
      block[2 * kHugePage] = 0;
      ASSERT_EQ(mincore(block, whole, resident.data()), 0);
      EXPECT_EQ(std::count(resident.begin(), resident.end(), 1), 1);  // not a huge page
    }
    EXPECT_EQ(std::count(block, block + bytes, 0), static_cast<std::ptrdiff_t>(bytes));
    BufferPool::deallocate(block, bytes);
  }
}

// Bytes in huge pages, of the mapping that `address` lies in.
std::size_t huge_bytes_at(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t first = 0, last = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> first >> dash >> last && dash == '-') {
      here = first <= wanted && wanted < last;
    } else if (here && line.starts_with("AnonHugePages:")) {
      return std::stoul(line.substr(line.find(':') + 1)) << 10;
    }
  }
  return 0;
}

TEST(BufferPool, GivesHugePagesAgainWhereASparseBlockWas) {
  if (!kKeepsBlocks) GTEST_SKIP() << "there are no large blocks under AddressSanitizer";
  constexpr std::size_t kBytes = 64 * kMebibyte;
  const auto huge_bytes = [](bool sparse) {
    BufferPool::release_idle();
    void* const block = BufferPool::allocate(kBytes);
    if (sparse) BufferPool::clear(block, kBytes);
    BufferPool::deallocate(block, kBytes);
    void* const again = BufferPool::allocate(kBytes);
    EXPECT_EQ(again, block);
    std::memset(again, 1, kBytes);
    const std::size_t huge = huge_bytes_at(again);
    BufferPool::deallocate(again, kBytes);
    return huge;
  };
  if (huge_bytes(false) == 0) GTEST_SKIP() << "this system has no huge pages to give";
  EXPECT_GE(huge_bytes(true), kBytes / 2);
}

TEST(BufferPool, NeverHandsOutABlockTwice) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(BufferPool::allocate(300));
  std::vector<void*> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  for (void* block : blocks) BufferPool::deallocate(block, 300);
}

TEST(BufferPool, ReturnsIdleBlocksOnRequest) {
  void* held = BufferPool::allocate(5000);
  std::memset(held, 7, 5000);
  BufferPool::deallocate(BufferPool::allocate(7000), 7000);
  const std::size_t in_use = BufferPool::statistics().bytes_in_use;
  BufferPool::release_idle();
  EXPECT_EQ(BufferPool::statistics().bytes_idle, 0U);
  EXPECT_EQ(BufferPool::statistics().bytes_in_use, in_use);
  EXPECT_EQ(static_cast<unsigned char*>(held)[4999], 7);

  const std::size_t requests = BufferPool::statistics().system_requests;
  BufferPool::deallocate(BufferPool::allocate(7000), 7000);
  EXPECT_EQ(BufferPool::statistics().system_requests, requests + 1);
  BufferPool::deallocate(held, 5000);
}

TEST(BufferPool, RefusesWhatCannotBeHad) {
  const auto before = BufferPool::statistics();
  EXPECT_THROW(BufferPool::allocate(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
  EXPECT_THROW(PoolAllocator<double>().allocate(std::numeric_limits<std::size_t>::max() / 16),
               std::bad_alloc);
  EXPECT_EQ(BufferPool::statistics().bytes_in_use, before.bytes_in_use);
  EXPECT_EQ(BufferPool::statistics().system_requests, before.system_requests);
  BufferPool::deallocate(nullptr, 64);  // like free, takes null
  EXPECT_EQ(BufferPool::statistics().bytes_in_use, before.bytes_in_use);
}

TEST(BufferPool, GivesIdleBlocksBackBeforeItFails) {
  for (const std::size_t refusals : {1U, 2U}) {
    void* idle = BufferPool::allocate(100000);
    const std::size_t in_use = BufferPool::statistics().bytes_in_use;
    BufferPool::deallocate(idle, 100000);  // so that the pool has a list of such blocks
    idle = BufferPool::allocate(100000);
    const FailingAllocations failing(1, refusals);
    BufferPool::deallocate(idle, 100000);  // only now, because the line above has emptied the pool
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

TEST(BufferPool, TakesNoMoreThanALargeBlockWhereAddressesAreFew) {
  if (!kKeepsBlocks) GTEST_SKIP() << "there are no large blocks under AddressSanitizer";
  BufferPool::release_idle();
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &usual), 0);
  rlimit few = usual;
  few.rlim_cur = pages * static_cast<std::size_t>(getpagesize()) + 4 * kMebibyte;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &few), 0);
  char* block = nullptr;
  EXPECT_NO_THROW(block = static_cast<char*>(BufferPool::allocate(kMebibyte)));
  EXPECT_THROW(BufferPool::allocate(4 * kMebibyte), std::bad_alloc);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &usual), 0);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(aligned(block, kPage));
  std::memset(block, 1, kMebibyte);
  BufferPool::deallocate(block, kMebibyte);
}

TEST(BufferPool, TakesBackOnOneThreadWhatAnotherWasGiven) {
  const std::size_t in_use = BufferPool::statistics().bytes_in_use;
  auto churn = [](std::vector<Tensor>& kept) {
    for (std::size_t i = 0; i < 500; ++i) {
      Tensor tensor = full({1 + i % 37, 11}, static_cast<real>(i));
      if (i % 10 == 0) kept.push_back(std::move(tensor));
    }
  };
  std::vector<Tensor> first, second;
  std::thread one([&] { churn(first); });
  std::thread two([&] { churn(second); });
  one.join();
  two.join();
  for (const auto* kept : {&first, &second})
    for (std::size_t i = 0; i < kept->size(); ++i)
      EXPECT_EQ((*kept)[i], full({1 + 10 * i % 37, 11}, static_cast<real>(10 * i)));
  first.clear();
  second.clear();
  EXPECT_EQ(BufferPool::statistics().bytes_in_use, in_use);
}

}  // namespace
