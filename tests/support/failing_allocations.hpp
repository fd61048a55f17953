#pragma once

// Memory that runs out, at a place of the test's choice.

#include <cstddef>
#include <limits>
#include <new>

#include <gtest/gtest.h>

#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad::testing {

/// While it lives, some requests for memory fail, of any thread: those of operator new, in all its
/// forms, and those of std::aligned_alloc, which is what the buffer pool asks. Idle blocks of the
/// pool are given back first, for they would serve without a request. One at a time.
class FailingAllocations {
 public:
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  /// From now on, request `first` (counted from 1) fails, and `count` in all.
  explicit FailingAllocations(std::size_t first, std::size_t count = kAll);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  /// Whether any request has failed.
  bool any_failed() const;
};

/// Tries a call with each request for memory that it makes failing in turn: that one alone, it and
/// the next (the pool asks again before it gives up), it and all that follow. Each time `make()`
/// gives what `call` is for; afterwards `check(*made, finished)` is to see that it is as after the
/// call if that finished, and as before if std::bad_alloc came out. Other exceptions get through.
/// Stops at the first failure of an expectation.
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
