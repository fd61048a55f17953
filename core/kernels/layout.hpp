#pragma once

// Numbers moved without arithmetic: axes permuted, blocks copied between arrays.

#include <cstddef>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Axis i of the result is axis axes[i] of x; `axes` is a permutation of x's axes.
Tensor permute(const Tensor& x, const std::vector<std::size_t>& axes);

/// Copies `blocks` blocks of `length` numbers: block k from from + k · from_step to to + k ·
/// to_step.
void copy_blocks(const real* from, std::size_t from_step, real* to, std::size_t to_step,
                 std::size_t length, std::size_t blocks);

}  // namespace rowgrad::kernels
