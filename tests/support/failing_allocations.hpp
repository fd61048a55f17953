#pragma once

// Simulates running out of memory at a chosen point.

#include <cstddef>
#include <limits>
#include <new>

#include <gtest/gtest.h>

#include <rowgrad/core/base/check.hpp>

namespace rowgrad::testing {

/// A scope in which some allocations of all threads fail: operator new, in all its forms, and
/// std::aligned_alloc, which the buffer pool uses. The constructor releases the idle blocks of the
/// pool, which would be used without a request. Only one may exist at a time.
class FailingAllocations {
 public:
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t kNever = kAll;  // as `first`: requests are only counted

  /// Makes `count` requests fail, starting with request `first`, counted from 1.
  explicit FailingAllocations(std::size_t first, std::size_t count = kAll);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  /// Returns true if any request has failed.
  bool any_failed() const;

  /// Returns the bytes requested since construction.
  static std::size_t bytes();
};

/// Repeats a call, and lets each of its memory requests fail in turn: this request alone, this and
/// the next request (as the pool tries twice), and this and all later requests. Each time, `make()`
/// returns the object for `call`. Afterwards, `check(*made, finished)` should verify that the
/// object has changed if the call finished, and is unchanged if the call threw std::bad_alloc.
/// Other exceptions are not caught. Stops at the first failed expectation.
template <class Make, class Call, class Check>
void for_every_failure(const Make& make, const Call& call, const Check& check) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, FailingAllocations::kAll}) {
    bool any_failed = true;
    for (std::size_t first = 1; any_failed; ++first) {
      if (::testing::Test::HasFailure()) return;
      SCOPED_TRACE(concat("requests fail from number ", first, " on, ", count, " of them"));
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
      EXPECT_TRUE(finished || any_failed) << "std::bad_alloc, although no request failed";
      EXPECT_TRUE(first > 1 || any_failed) << "the call requests no memory";
      check(*made, finished);
    }
  }
}

}  // namespace rowgrad::testing
