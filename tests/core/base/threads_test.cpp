#include "tests/support/threads.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/tensors.hpp"
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/blas/gemm.hpp>

namespace rowgrad {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRanges = 4;

// The product of two matrices that are large enough for several threads.
Tensor large_product() {
  constexpr std::size_t kSide = 400;
  const Tensor a = testing::irregular({kSide, kSide}, 1);
  const Tensor b = testing::irregular({kSide, kSide}, 2);
  Tensor result = empty({kSide, kSide});
  blas::gemm({a.data(), kSide, kSide}, {b.data(), kSide, kSide}, {result.data(), kSide, kSide});
  return result;
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(SetThreads, RefusesFewerThanOne) {
  const int before = thread_count();
  EXPECT_EQ(testing::error_of<std::invalid_argument>([] { set_threads(0); }),
            "set_threads: count 0 is below 1");
  EXPECT_THROW(set_threads(-3), std::invalid_argument);
  EXPECT_EQ(thread_count(), before);
}

TEST(RangeCount, IsTheNumberOfThreadsThatAreWorthwhile) {
  const testing::Threads scope(3);
  EXPECT_EQ(range_count(29, 10), 2U);
  EXPECT_EQ(range_count(19, 10), 1U);
  EXPECT_EQ(range_count(1000, 10), 3U);
  EXPECT_EQ(range_count(0, 0), 1U);
}

TEST(RunRanges, UsesAThreadForEachRange) {
  const testing::Threads scope(kRanges);
  std::atomic<std::size_t> begun = 0;
  run_ranges(kRanges, RangeBody([&](std::size_t) {
               ++begun;  // none ends before all have begun, each on a thread of its own
               while (begun < kRanges) std::this_thread::yield();
             }));
  EXPECT_EQ(begun, kRanges);
}

TEST(RunRanges, RunsEachOnceIfManyThreadsHaveLoops) {
  const testing::Threads scope(kRanges);
  testing::at_once(3, [&](std::size_t) {
    for (int round = 0; round < 300; ++round) {
      std::array<std::atomic<int>, 7> visits{};
      run_ranges(visits.size(), RangeBody([&](std::size_t range) { ++visits[range]; }));
      for (const auto& count : visits) ASSERT_EQ(count, 1);
    }
  });
}

TEST(RunRanges, DoesNotWaitForThreadsThatHaveNotBegun) {
  const testing::Threads scope(200);  // few of which get a turn before the caller is done
  std::atomic<int> ranges = 0;
  for (int round = 0; round < 50; ++round)
    run_ranges(200, RangeBody([&](std::size_t) { ++ranges; }));
  EXPECT_EQ(ranges, 50 * 200);
}

TEST(RunRanges, LeavesIdleThreadsAsleep) {
  const testing::Threads scope(kRanges);
  run_ranges(kRanges, RangeBody([](std::size_t) {}));
  std::this_thread::sleep_for(20ms);
  const double before = processor_seconds();
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(processor_seconds() - before, 0.03);
}

TEST(RunRanges, LeavesSignalsToTheProgram) {
  const testing::Threads scope(2);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<std::size_t> begun = 0;
  run_ranges(2, RangeBody([&](std::size_t) {
               ++begun;
               while (begun < 2) std::this_thread::yield();
               if (std::this_thread::get_id() == caller) return;
               sigset_t blocked;
               pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
               EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
             }));
}

// A forked process has one thread only.
TEST(RunRanges, WorksInAForkedProcess) {
  const testing::Threads scope(2);
  const Tensor expected = large_product();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(30);
    _exit(large_product() == expected ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Ranges of rows, of columns, and of a single row.
TEST(Products, AreTheSameOnAnyNumberOfThreads) {
  for (const auto& [rows, inner, columns] : std::vector<std::array<std::size_t, 3>>{
           {30, 70, 5001}, {5001, 70, 30}, {700, 300, 500}, {1, 300, 9001}})
    for (const bool transposed : {false, true}) {
      const Tensor a = testing::irregular({rows, inner}, 1);
      const Tensor b = testing::irregular({inner, columns}, 2);
      const auto product = [&](int threads) {
        const testing::Threads scope(threads);
        Tensor result = empty({rows, columns});
        if (transposed) {  // other matrices of the same size
          blas::gemm({a.data(), rows, inner, true}, {b.data(), inner, columns, true},
                     {result.data(), rows, columns});
        } else {
          blas::gemm({a.data(), rows, inner}, {b.data(), inner, columns},
                     {result.data(), rows, columns});
        }
        return result;
      };
      const Tensor expected = product(1);
      // The kernel may sum in another order at the end of a range: see the bound in gemm_test.
      const double bound = 2 * static_cast<double>(inner * (inner + 1)) * testing::kEpsilon;
      for (const int threads : {2, 3})
        testing::expect_near(product(threads), expected, bound,
                             concat(rows, " × ", inner, " × ", columns, " on ", threads));
    }
}

}  // namespace
}  // namespace rowgrad
