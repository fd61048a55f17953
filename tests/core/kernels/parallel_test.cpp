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
        EXPECT_LE(pieces, threads);
        if (count == 0) {
          EXPECT_EQ(pieces, 0);
        }
      }
  }
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
