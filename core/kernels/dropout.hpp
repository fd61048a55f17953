#pragma once

// Masks of dropout: a bit for each number, drawn in the order of memory.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rowgrad/core/tensor/buffer_pool.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Bit i of words[i / 32], counted from the lowest, says whether number i is kept.
struct KeepMask {
  std::vector<std::uint32_t, PoolAllocator<std::uint32_t>> words;
};

/// Keeps each of `count` numbers with probability 1 − p: where a uniform number of 53 bits is below
/// it, as PyTorch draws its masks on CPUs without MKL. Takes two words of `random` a number.
KeepMask draw_keep_mask(Random& random, std::size_t count, double p);

/// out[i] = x[i] · (kept ? factor : 0); `out` may be x.
void apply_keep_mask(const KeepMask& mask, std::size_t count, const real* x, real factor,
                     real* out);

}  // namespace rowgrad::kernels
