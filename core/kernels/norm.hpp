#pragma once

// Norms of order 1, 2 and infinity of several arrays, taken as one vector. Pieces of rows are
// summed in double, and added in order. Rows of zeros change no bit, so a few rows and a table that
// is zero elsewhere have the same norm, on any number of threads.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Contiguous rows of an array.
struct RowSpan {
  const real* values;
  std::size_t rows;
  std::size_t width;
};

/// A function that gathers the partial sums or largest magnitudes of an array from all ranks, in
/// row order.
using AllParts =
    std::function<std::vector<double>(std::size_t array, std::vector<double> parts_here)>;

/// Returns (Σ |x|^p)^(1/p) for p = 1 or 2, max |x| for p = infinity, and 0 without values. The norm
/// is NaN if a value is, and infinite only if a value is or the norm overflows. Without
/// `all_parts`, all rows are local.
double norm(std::span<const RowSpan> arrays, double p, const AllParts& all_parts = {});

/// Returns the norm of a single row.
double norm(std::span<const real> row, double p);

/// Returns |a − factor · b| for short vectors of `width` values, in the precision of `real`.
double distance(std::size_t width, const real* a, const real* b, double factor = 1);

/// Returns |a|, in the precision of `real`.
double length(std::size_t width, const real* a);

/// Returns max |x|, or NaN if a value is.
double max_abs(std::span<const real> values);

/// Returns true if no value is infinite or NaN.
bool all_finite(std::span<const real> values);

/// Computes the 2-norm of each row of `width` values.
void norm_rows(const real* x, std::size_t rows, std::size_t width, real* norms);

}  // namespace rowgrad::kernels
