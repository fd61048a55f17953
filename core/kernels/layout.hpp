#pragma once

// Data movement: axes are permuted, blocks are copied between arrays, or added to what is there.

#include <cstddef>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Axis i of the result is axis axes[i] of x; `axes` is a permutation of x's axes.
Tensor permute(const Tensor& x, const std::vector<std::size_t>& axes);

/// Copies `blocks` blocks of `length` values: block k is read at `from + k · from_step` and written
/// at `to + k · to_step`.
void copy_blocks(const real* from, std::size_t from_step, real* to, std::size_t to_step,
                 std::size_t length, std::size_t blocks);

/// The same, but adds each block to the values that are there.
void add_blocks(const real* from, std::size_t from_step, real* to, std::size_t to_step,
                std::size_t length, std::size_t blocks);

}  // namespace rowgrad::kernels
