#pragma once

// Sums. Values are added in an order that depends only on the shape, never on the threads.

#include <cstddef>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// The sum of `count` values: blocks of a fixed size in vector registers, block sums in double.
real sum(const real* values, std::size_t count);

/// Sums x over the axes marked in `reduced` (one entry per axis), which keep length 1.
Tensor sum_along(const Tensor& x, const std::vector<bool>& reduced);

/// y [outer, extent, inner]: running sums of x along its middle axis, from its first entry to its
/// last, or from the last to the first if `reverse`; added up in double.
void cumulative_sums(const real* x, std::size_t outer, std::size_t extent, std::size_t inner,
                     bool reverse, real* y);

}  // namespace rowgrad::kernels
