#pragma once

// Sums of powers, for norms. A number counts by its place in the whole array, so that the result
// has the same bits for any number of threads, and for a few rows alone as for the whole table with
// zeros elsewhere.

#include <cstddef>
#include <cstdint>
#include <span>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Σ (|x| / unit)^p, in double; p > 0 and finite.
double sum_of_powers(std::span<const real> values, double p, double unit = 1);

/// The same over a table of rows of `width` numbers that is zero outside the rows `numbers`, which
/// rise strictly; `values` are [numbers, width]. Its cost is that of the rows.
double sum_of_powers(std::span<const std::int32_t> numbers, std::size_t width,
                     std::span<const real> values, double p, double unit = 1);

/// max |x|: 0 of nothing, and NaN if there is a NaN.
double largest_magnitude(std::span<const real> values);

}  // namespace rowgrad::kernels
