#pragma once

#include <cstddef>
#include <exception>
#include <latch>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <rowgrad/core/base/threads.hpp>

namespace rowgrad::testing {

/// A scope with another thread count.
class Threads {
 public:
  explicit Threads(int count) : before_(thread_count()) { set_threads(count); }
  ~Threads() { set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// Calls action(i) for i from 0 to count − 1, concurrently, each in its own thread.
template <class Action>
void at_once(std::size_t count, const Action& action) {
  std::latch start(static_cast<std::ptrdiff_t>(count));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      try {
        action(i);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "thread " << i << ": " << error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rowgrad::testing
