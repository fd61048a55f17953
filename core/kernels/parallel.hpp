#pragma once

// Parallel loops. Each thread gets a contiguous range, and results must not depend on where ranges
// end: every kernel gives the same bits for any number of threads.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <omp.h>

namespace rowgrad::kernels {

/// Calls body(begin, end) for ranges that cover [0, count), one per thread; on the calling thread
/// alone if a second thread would get fewer than `grain` items. If `body` throws, on any thread,
/// the first exception is rethrown to the caller after all threads have finished.
void parallel_for(std::size_t count, std::size_t grain, const auto& body) {
  const std::size_t useful = count / std::max<std::size_t>(grain, 1);
  if (useful < 2 || omp_in_parallel() || omp_get_max_threads() == 1) {
    if (count > 0) body(std::size_t{0}, count);
    return;
  }
  std::exception_ptr thrown;  // exceptions must not leave the parallel region
  const auto threads = std::min(useful, static_cast<std::size_t>(omp_get_max_threads()));
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    const auto parts = static_cast<std::size_t>(omp_get_num_threads());
    const auto part = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t begin = count * part / parts;
    const std::size_t end = count * (part + 1) / parts;
    try {
      if (begin < end) body(begin, end);
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
