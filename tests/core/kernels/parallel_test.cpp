#include <atomic>

#include "tests/test.hpp"
#include <rowgrad/core/kernels/parallel.hpp>

namespace rowgrad::kernels {
namespace {

TEST(ParallelFor, VisitsEveryItemOnceOnAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    const Threads scope(threads);
    for (const std::size_t count : {0UL, 1UL, 2UL, 3UL, 7UL, 100UL})
      for (const std::size_t grain : {0UL, 1UL, 3UL, 1000UL}) {
        std::vector<int> visits(count, 0);
        std::atomic<int> pieces = 0;
        parallel_for(count, grain, [&](std::size_t begin, std::size_t end) {
          ++pieces;
          for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
        EXPECT_EQ(visits, std::vector<int>(count, 1)) << count << " by " << grain;
        EXPECT_LE(pieces, threads == 1 ? 1 : 9 * threads);
        if (count == 0) {
          EXPECT_EQ(pieces, 0);
        }
      }
  }
}

// If other programs need the processors, loops stay on one thread for a while, so the test tries
// repeatedly.
TEST(ParallelFor, TakesPiecesOfASlowThread) {
  const Threads scope(2);
  constexpr std::size_t kCount = 64;
  std::atomic<bool> waits = false, helped = false;
  for (int round = 0; round < 100 && !helped; ++round)
    parallel_for(kCount, 1, [&](std::size_t begin, std::size_t) {
      if (begin > 0) {
        if (begin < kCount / 2 && waits) helped = true;
        return;
      }
      waits = true;
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
      while (!helped && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      waits = false;
    });
  EXPECT_TRUE(helped);
}

TEST(ParallelFor, RethrowsExceptionsOfAnyThread) {
  for (const int threads : {1, 2, 3}) {
    const Threads scope(threads);
    for (const std::size_t thrower : {0UL, 1UL, 2UL}) {
      std::vector<int> visits(3, 0);
      const auto body = [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          if (i == thrower) throw std::out_of_range(std::to_string(i));
          ++visits[i];
        }
      };
      EXPECT_ERROR(std::out_of_range, std::to_string(thrower), parallel_for(3, 1, body));
      EXPECT_EQ(visits[thrower], 0);
      if (threads == 3) {
        EXPECT_EQ(visits[0] + visits[1] + visits[2], 2) << "the other ranges must complete";
      }
    }
    const auto both = [](std::size_t, std::size_t) { throw std::bad_alloc(); };
    EXPECT_THROW(parallel_for(3, 1, both), std::bad_alloc);
  }
}

}  // namespace
}  // namespace rowgrad::kernels
