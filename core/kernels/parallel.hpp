#pragma once

// Parallel loops. Each thread gets a contiguous range. Results must not depend on where ranges end,
// so that kernels give the same bits for any number of threads.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <rowgrad/core/base/threads.hpp>

namespace rowgrad::kernels {

/// Calls body(begin, end) for ranges that cover [0, count), or body(begin, end, range), where
/// `range` indexes scratch memory that was allocated for range_count(count, grain) ranges. If
/// `body` throws on any thread, the first exception is rethrown to the caller after all threads
/// have finished.
void parallel_for(std::size_t count, std::size_t grain, const auto& body) {
  // Not inlined, so that the loop is compiled only once, for one range and for several.
  const auto process = [&](std::size_t begin, std::size_t end, std::size_t range)
      __attribute__((noinline)) {
    if constexpr (std::is_invocable_v<decltype(body), std::size_t, std::size_t, std::size_t>)
      body(begin, end, range);
    else
      body(begin, end);
  };
  const std::size_t ranges = range_count(count, grain);
  if (ranges == 1) {
    if (count > 0) process(0, count, 0);
    return;
  }
  run_ranges(ranges, FunctionRef([&](std::size_t range) {
               process(count * range / ranges, count * (range + 1) / ranges, range);
             }));
}

/// The number of values per thread for which it is worth waking another thread.
constexpr std::size_t kGrainElements = 16384;

/// Returns the grain, in rows, of a loop over rows of `width` values.
inline std::size_t row_grain(std::size_t width) {
  return std::max<std::size_t>(1, kGrainElements / std::max<std::size_t>(width, 1));
}

/// Calls body(i) for each i in [0, count), at a cost of about `work` simple operations each. Each
/// range has a copy of `body`. No store can alias the copy, so captures stay in registers.
void parallel_for_each(std::size_t count, std::size_t work, const auto& body) {
  parallel_for(count, row_grain(work), [&](std::size_t begin, std::size_t end) {
    const auto own_body = body;
    for (std::size_t i = begin; i < end; ++i) own_body(i);
  });
}

}  // namespace rowgrad::kernels
