#pragma once

// Dropout masks: one bit per value, drawn in memory order.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rowgrad/core/base/buffer_pool.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// A bit for each value: value i is kept if bit i % 32 of mask[i / 32] is set.
using DropoutMask = std::vector<std::uint32_t, PoolAllocator<std::uint32_t>>;

/// Draws a mask. A value is kept if a uniform random number of 53 bits is below 1 − p, as in
/// PyTorch on CPUs without MKL. Takes two words of `random` per value.
DropoutMask draw_dropout_mask(Random& random, std::size_t count, double p);

/// Computes out[i] = x[i] · (kept ? factor : 0). `out` may be x.
void apply_dropout_mask(const DropoutMask& mask, std::size_t count, const real* x, real factor,
                        real* out);

}  // namespace rowgrad::kernels
