#include <atomic>
#include <ctime>
#include <mutex>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.hpp"

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRanges = 4;

// Returns the product of two matrices that are large enough for several threads.
Tensor large_product() {
  constexpr std::size_t kSide = 400;
  const Tensor a = irregular({kSide, kSide}, 1);
  const Tensor b = irregular({kSide, kSide}, 2);
  Tensor result = empty({kSide, kSide});
  blas::gemm({a.data(), kSide, kSide}, {b.data(), kSide, kSide}, {result.data(), kSide, kSide});
  return result;
}

TEST(SetThreads, RejectsFewerThanOne) {
  const int before = thread_count();
  EXPECT_INVALID("set_threads: count 0, expected at least 1", set_threads(0));
  EXPECT_THROW(set_threads(-3), std::invalid_argument);
  EXPECT_EQ(thread_count(), before);
}

TEST(RangeCount, GivesEachThreadAtLeastTheGrain) {
  const Threads scope(3);
  EXPECT_EQ(range_count(29, 10), 2U);
  EXPECT_EQ(range_count(19, 10), 1U);
  EXPECT_EQ(range_count(1000, 10), 3U);
  EXPECT_EQ(range_count(0, 0), 1U);
}

// Each range waits up to 100 ms until all ranges have begun. If other programs need the processors,
// loops stay on one thread for a while, so the test tries repeatedly.
TEST(RunRanges, UsesAThreadForEachRangeAndBlocksSignalsThere) {
  const Threads scope(kRanges);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<std::size_t> together = 0;
  for (int round = 0; round < 100 && together < kRanges; ++round) {
    std::atomic<std::size_t> begun = 0;
    together = 0;
    run_ranges(kRanges, FunctionRef([&](std::size_t) {
                 ++begun;
                 const auto end = std::chrono::steady_clock::now() + 100ms;
                 while (begun < kRanges && std::chrono::steady_clock::now() < end)
                   std::this_thread::yield();
                 if (begun == kRanges) ++together;
                 sigset_t blocked;
                 pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
                 if (std::this_thread::get_id() != caller) {
                   EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
                 }
               }));
  }
  EXPECT_EQ(together, kRanges);
}

TEST(RunRanges, RunsEachRangeOnceIfSeveralThreadsRunLoops) {
  const Threads scope(kRanges);
  at_once(3, [&](std::size_t) {
    for (int round = 0; round < 300; ++round) {
      std::array<std::atomic<int>, 7> visits{};
      run_ranges(visits.size(), FunctionRef([&](std::size_t range) { ++visits[range]; }));
      for (const auto& count : visits) ASSERT_EQ(count, 1);
    }
  });
}

TEST(RunRanges, RunsMoreRangesThanProcessors) {
  const Threads scope(200);
  std::atomic<int> ranges = 0;
  for (int round = 0; round < 50; ++round)
    run_ranges(200, FunctionRef([&](std::size_t) { ++ranges; }));
  EXPECT_EQ(ranges, 50 * 200);
}

TEST(RunRanges, IdleThreadsSleep) {
  const Threads scope(kRanges);
  run_ranges(kRanges, FunctionRef([](std::size_t) {}));
  std::clock_t used = CLOCKS_PER_SEC;  // CPU time; on a busy machine, threads sleep later
  for (int tries = 0; tries < 20 && used >= 0.03 * CLOCKS_PER_SEC; ++tries) {
    std::this_thread::sleep_for(20ms);
    const std::clock_t before = std::clock();
    std::this_thread::sleep_for(300ms);
    used = std::clock() - before;
  }
  EXPECT_LT(used, 0.03 * CLOCKS_PER_SEC);
}

TEST(RunRanges, NestedLoopsStayOnTheirThread) {
  const Threads scope(2);
  std::atomic<int> inner = 0;
  run_ranges(2, FunctionRef([&](std::size_t) {
               const std::thread::id outer = std::this_thread::get_id();
               run_ranges(3, FunctionRef([&](std::size_t) {
                            EXPECT_EQ(std::this_thread::get_id(), outer);
                            ++inner;
                          }));
               EXPECT_THROW(set_threads(3), std::logic_error);
             }));
  EXPECT_EQ(inner, 6);
  EXPECT_EQ(thread_count(), 2);
}

TEST(RunRanges, UsesAtMostTheThreadsThatWereSet) {
  { const Threads many(kRanges); }
  const Threads scope(2);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (int round = 0; round < 20; ++round)
    run_ranges(7, FunctionRef([&](std::size_t) {
                 const std::scoped_lock lock(mutex);
                 threads.insert(std::this_thread::get_id());
               }));
  EXPECT_LE(threads.size(), 2U);
}

// Functions of OpenMP; null if OpenBLAS was not built with OpenMP.
extern "C" {
[[gnu::weak]] int omp_get_max_threads();
[[gnu::weak]] void omp_set_num_threads(int);
}

TEST(Products, DoNotChangeTheThreadsOfOpenMp) {
  if (omp_get_max_threads == nullptr) GTEST_SKIP() << "this OpenBLAS does not use OpenMP";
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  large_product();
  EXPECT_EQ(omp_get_max_threads(), 3);
  omp_set_num_threads(before);
}

// A forked process has only one thread.
TEST(RunRanges, WorksInAForkedProcess) {
  const Threads scope(2);
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

}  // namespace
