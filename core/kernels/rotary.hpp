#pragma once

// Rotation of pairs of columns by angles that depend on the position (Su et al. 2021, "RoFormer").

#include <cstddef>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Which columns of a head are rotated: the first 2 · pairs, pair i being i and i + pairs, or if
/// interleaved, 2i and 2i + 1. The others are copied.
struct RotaryColumns {
  std::size_t pairs;
  bool interleaved;
};

/// Each row of x has `heads` heads of `head_width` values, of which each pair (a, b) becomes
/// (a cos − sign b sin, sign a sin + b cos). Row i is at position i % length, whose cosines and
/// sines begin at position · pairs. A sign of −1 undoes what 1 does. y may be x.
void rotate_rows(const RotaryColumns& columns, const real* x, std::size_t rows, std::size_t length,
                 std::size_t heads, std::size_t head_width, const real* cosines, const real* sines,
                 real sign, real* y);

}  // namespace rowgrad::kernels
