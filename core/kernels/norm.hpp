#pragma once

// Norms of order 1, 2 and infinity, of arrays taken as one vector. Each row is summed in double,
// and the sums of rows are added in their order. Rows of zeros change nothing, so a few rows have
// the norm of the whole table with zeros elsewhere, bit for bit, on any number of threads.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Rows of an array, one behind the other.
struct RowSpan {
  const real* values;
  std::size_t rows;
  std::size_t width;
};

/// Completes the partial sums, or the largest magnitude, of array number `array`: returns them
/// together with those of its rows that are elsewhere, in the order of rows.
using AllParts =
    std::function<std::vector<double>(std::size_t array, std::vector<double> parts_here)>;

/// (Σ |x|^p)^(1/p) for p = 1 or 2, max |x| for p = infinity; 0 without numbers. Infinite only if a
/// number or the norm itself is; NaN if a number is. Without `all_parts`, all rows are here.
double norm(std::span<const RowSpan> arrays, double p, const AllParts& all_parts = {});

/// The norm of a single row.
double norm(std::span<const real> row, double p);

/// |a − factor · b| for short vectors of `width` values, to the precision of `real`.
double distance(std::size_t width, const real* a, const real* b, double factor = 1);

/// |a|, likewise.
double length(std::size_t width, const real* a);

/// max |x|, NaN if a number is.
double max_abs(std::span<const real> values);

/// Returns true if no number is infinite or NaN.
bool all_finite(std::span<const real> values);

/// The norm of order 2 of each row of `width` values.
void norm_rows(const real* x, std::size_t rows, std::size_t width, real* norms);

}  // namespace rowgrad::kernels
