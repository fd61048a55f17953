#pragma once

// Simulates memory that runs out at a point that the test chooses.

#include <cstddef>
#include <limits>
#include <new>

#include <gtest/gtest.h>

#include <rowgrad/core/base/check.hpp>

namespace rowgrad::testing {

/// While it exists, some memory requests of all threads fail: those to operator new, in all its
/// forms, and to std::aligned_alloc, which the buffer pool uses. The idle blocks of the pool are
/// released first, because they would be used without a request. Only one may exist at a time.
class FailingAllocations {
 public:
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kNever = kAll;  // as `first`: requests are only counted

  /// From now on, `count` requests fail, the first of them being request `first`, counted from 1.
  explicit FailingAllocations(std::size_t first, std::size_t count = kAll);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  /// Whether any request has failed.
  bool any_failed() const;

  /// The bytes that were requested while it has existed.
  static std::size_t bytes();
};

/// Repeats a call and lets each memory request that it makes fail in turn: that one alone, that one
/// and the next (the pool asks again before it gives up), that one and all that follow. Each time,
/// `make()` returns the object for `call`; afterwards, `check(*made, finished)` should verify that
/// the object is as after the call if that finished, and as before if it threw std::bad_alloc.
/// Other exceptions are not caught. Stops at the first failed expectation.
template <class Make, class Call, class Check>
void for_every_failure(const Make& make, const Call& call, const Check& check) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, FailingAllocations::kAll}) {
    bool any_failed = true;
    for (std::size_t first = 1; any_failed; ++first) {
      if (::testing::Test::HasFailure()) return;
      SCOPED_TRACE(concat("request ", first, " fails, of ", count, " that do"));
      const auto made = make();
      bool finished = false;
      {
        const FailingAllocations failing(first, count);
        try {
          call(*made);
          finished = true;
        } catch (const std::bad_alloc&) {
        }
        any_failed = failing.any_failed();
      }
      EXPECT_TRUE(finished || any_failed) << "std::bad_alloc though there was memory";
      EXPECT_TRUE(first > 1 || any_failed) << "the call asks for no memory";
      check(*made, finished);
    }
  }
}

}  // namespace rowgrad::testing
