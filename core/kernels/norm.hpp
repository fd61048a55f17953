#pragma once

// Norms, and the sums of powers they are made of. A number counts by its place in the whole array,
// so that the result has the same bits for any number of threads, and for a few rows alone as for
// the whole table with zeros elsewhere.

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// (Σ |x|^p)^(1/p), max |x| for p = infinity; p > 0. Infinite only where a number or the norm
/// itself is: powers that leave the range of numbers are summed again in units of the largest
/// number.
double norm(std::span<const real> values, double p);

/// The same of whatever numbers these two are of: powers(unit) = Σ (|x| / unit)^p, largest() = max
/// |x|.
double norm(double p, const std::function<double(double unit)>& powers,
            const std::function<double()>& largest);

}  // namespace rowgrad::kernels
