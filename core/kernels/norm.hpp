#pragma once

// Norms of order 1, 2 and infinity, of arrays taken as one vector. Each row is summed in double,
// and the sums of rows are added in their order. Rows of zeros change nothing, so a few rows have
// the norm of the whole table with zeros elsewhere, bit for bit, on any number of threads.

#include <cstddef>
#include <span>

#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Rows of an array, one behind the other.
struct Rows {
  const real* values;
  std::size_t rows;
  std::size_t width;
  ProcessGroup* ranks = nullptr;  // each of which has some of the rows, in their order, if any
};

/// (Σ |x|^p)^(1/p) for p = 1 or 2, max |x| for p = infinity; 0 without numbers. Infinite only if a
/// number or the norm itself is; NaN if a number is.
double norm(std::span<const Rows> arrays, double p);

/// The norm of a single row.
double norm(std::span<const real> row, double p);

/// max |x|, NaN if a number is.
double largest_magnitude(std::span<const real> values);

/// Returns true if no number is infinite or NaN.
bool all_finite(std::span<const real> values);

/// The norm of order 2 of each row of `width` values.
void norm_rows(const real* x, std::size_t rows, std::size_t width, real* norms);

}  // namespace rowgrad::kernels
