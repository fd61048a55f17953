#pragma once

// Norms, and the sums of powers they are made of. The order of summation depends only on a value's
// index in the whole array, so the result has the same bits for any number of threads, and for a
// few rows as for the whole table with zeros elsewhere.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Σ (|x| / unit)^p in double, for finite p > 0.
double sum_of_powers(std::span<const real> values, double p, double unit = 1);

/// The same for a table of rows of `width` values that is zero outside the rows `indices`, which
/// are strictly increasing; `values` are [indices, width]. The cost depends only on these rows.
double sum_of_powers(std::span<const std::int32_t> indices, std::size_t width,
                     std::span<const real> values, double p, double unit = 1);

/// max |x|; 0 if there are no values, NaN if one of them is NaN.
double largest_magnitude(std::span<const real> values);

/// (Σ |x|^p)^(1/p), or max |x| for p = infinity; p > 0. Infinite only if a value or the norm itself
/// is: if powers overflow or underflow, they are summed again in units of the largest value.
double norm(std::span<const real> values, double p);

/// √Σ x² of each row of `width` values, no more infinite than that.
void norm_rows(const real* x, std::size_t rows, std::size_t width, real* norms);

/// norm() of values given by functions: powers(unit) = Σ (|x| / unit)^p, largest() = max |x|.
double norm(double p, const std::function<double(double unit)>& powers,
            const std::function<double()>& largest);

}  // namespace rowgrad::kernels
