#pragma once

// Parallel loops. Each thread gets contiguous ranges. Results must not depend on where ranges end,
// so that kernels give the same bits for any number of threads.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <type_traits>
#include <vector>

#include <rowgrad/core/base/threads.hpp>

namespace rowgrad::kernels {

/// Calls body(begin, end) for ranges that cover [0, count), or body(begin, end, scratch), where
/// `scratch` < range_count(count, grain) differs between calls that run at the same time. If `body`
/// throws on any thread, the first exception is rethrown to the caller after all threads have
/// finished.
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
  // Threads can differ in speed. Each takes the first half of its range, then small pieces of the
  // rest, then pieces that the threads of the next ranges have not taken.
  constexpr std::size_t kPieces = 8, kMaxHelped = 3;
  struct alignas(64) Taken {
    std::atomic<std::size_t> count = 0;
  };
  std::vector<Taken> taken(ranges);
  const auto boundary = [&](std::size_t range, std::size_t piece) {
    const std::size_t first = count * range / ranges;
    const std::size_t length = count * (range + 1) / ranges - first;
    return first + (piece == 0 ? 0 : length * (kPieces - 1 + piece) / (2 * kPieces));
  };
  run_ranges(ranges, FunctionRef([&](std::size_t range) {
               for (std::size_t i = 0; i < std::min(ranges, 1 + kMaxHelped); ++i) {
                 const std::size_t from = (range + i) % ranges;
                 for (std::size_t piece; (piece = taken[from].count++) <= kPieces;)
                   if (boundary(from, piece) < boundary(from, piece + 1))
                     process(boundary(from, piece), boundary(from, piece + 1), range);
               }
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
