#pragma once

// Sums. Numbers are added in an order that depends on the shape alone, never on the threads.

#include <cstddef>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// The sum of `count` numbers: blocks of a fixed size in vector registers, block sums in double.
real sum(const real* values, std::size_t count);

/// x summed over the axes marked in `reduced` (one entry an axis); those axes keep length 1.
Tensor sum_along(const Tensor& x, const std::vector<bool>& reduced);

}  // namespace rowgrad::kernels
