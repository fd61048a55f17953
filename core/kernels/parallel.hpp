#pragma once

// Parallel loops. Each thread gets a contiguous range, and results must not depend on where ranges
// end: every kernel gives the same bits for any number of threads.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <omp.h>
#include <type_traits>

namespace rowgrad::kernels {

/// The number of ranges that parallel_for cuts [0, count) into, at most: one for each thread, but
/// only one if a second thread would get fewer than `grain` items.
inline std::size_t range_count(std::size_t count, std::size_t grain) {
  const std::size_t useful = count / std::max<std::size_t>(grain, 1);
  if (useful < 2 || omp_in_parallel()) return 1;
  return std::min(useful, static_cast<std::size_t>(omp_get_max_threads()));
}

/// Calls body(begin, end) for ranges that cover [0, count), or body(begin, end, range) with the
/// number of the range, by which a body finds memory that was allocated for each of them before:
/// if threads asked for it, how much there is would depend on how they overlap. If `body` throws,
/// on any thread, the first exception is rethrown to the caller after all threads have finished.
void parallel_for(std::size_t count, std::size_t grain, const auto& body) {
  const auto process = [&](std::size_t begin, std::size_t end, std::size_t range) {
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
  std::exception_ptr thrown;  // exceptions must not leave the parallel region
#pragma omp parallel num_threads(static_cast <int>(ranges))
  {
    const auto parts = static_cast<std::size_t>(omp_get_num_threads());
    const auto part = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t begin = count * part / parts;
    const std::size_t end = count * (part + 1) / parts;
    try {
      if (begin < end) process(begin, end, part);
    } catch (...) {
#pragma omp critical(rowgrad_thrown)
      if (!thrown) thrown = std::current_exception();
    }
  }
  if (thrown) std::rethrow_exception(thrown);
}

/// The number of values per thread that makes it worthwhile to wake a second thread.
constexpr std::size_t kGrainNumbers = 16384;

/// The grain, in rows, of a loop over rows of `width` values.
inline std::size_t row_grain(std::size_t width) {
  return std::max<std::size_t>(1, kGrainNumbers / std::max<std::size_t>(width, 1));
}

}  // namespace rowgrad::kernels
