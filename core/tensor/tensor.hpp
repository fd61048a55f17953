#pragma once

// The arrays of rowgrad: xtensor arrays, row-major, of any rank, with pooled memory. Everything
// xtensor offers works on them; an xtensor expression must be stored in a Tensor within the
// statement that makes it, never in an `auto` (it refers to its operands).

#include <cstddef>

#include <rowgrad/core/tensor/buffer_pool.hpp>
#include <rowgrad/core/tensor/check.hpp>
#include <rowgrad/core/tensor/ids.hpp>
#include <rowgrad/core/tensor/number_type.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

namespace rowgrad {

/// An array of numbers that owns its data.
using Tensor = xt::xarray<real, xt::layout_type::row_major, PoolAllocator<real>>;

using Shape = Tensor::shape_type;

/// A tensor with uninitialised entries.
inline Tensor empty(const Shape& shape) { return Tensor::from_shape(shape); }

inline Tensor full(const Shape& shape, real value) { return Tensor(shape, value); }

inline Tensor zeros(const Shape& shape) { return full(shape, 0); }

/// A tensor of rank 0.
inline Tensor scalar(real value) { return full({}, value); }

/// The number of entries of an array of that shape.
inline std::size_t element_count(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

/// The index of the entry at an offset in row-major order.
inline Shape index_at(const Shape& shape, std::size_t offset) {
  Shape index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = offset % shape[axis];
    offset /= shape[axis];
  }
  return index;
}

}  // namespace rowgrad
