#pragma once

// Tensors: row-major xtensor arrays of any rank in pooled memory. All xtensor functions accept
// them. Store an xtensor expression in a Tensor within the statement that creates it, never in an
// `auto`: the expression refers to its operands.

#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>

#include <rowgrad/core/base/buffer_pool.hpp>
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/tensor/ids.hpp>
#include <rowgrad/core/tensor/number_type.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

namespace rowgrad {

/// An array of values that owns its memory.
using Tensor = xt::xarray<real, xt::layout_type::row_major, PoolAllocator<real>>;

using Shape = Tensor::shape_type;

/// The number of elements of an array of this shape, or nullopt if memory could never hold that
/// many. The test leaves out extents of 0, so that partial products cannot overflow either.
inline std::optional<std::size_t> checked_element_count(const Shape& shape) {
  constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(double);
  std::size_t count = 1;
  bool none = false;
  for (const std::size_t extent : shape) {
    none |= extent == 0;
    if (extent == 0) continue;
    if (__builtin_mul_overflow(count, extent, &count) || count > kMost) return std::nullopt;
  }
  return none ? 0 : count;
}

/// The same, but throws std::invalid_argument naming `caller` and the shape instead of returning
/// nullopt. Every size is checked here before memory is requested for it.
inline std::size_t element_count(const Shape& shape, std::string_view caller = "Tensor") {
  const auto count = checked_element_count(shape);
  check_argument(count.has_value(), caller, ": shape ", bracketed(shape),
                 " has more numbers than memory could ever hold");
  return *count;
}

/// A tensor with uninitialised elements.
inline Tensor empty(const Shape& shape) {
  element_count(shape);
  return Tensor::from_shape(shape);
}

inline Tensor full(const Shape& shape, real value) {
  element_count(shape);
  return Tensor(shape, value);
}

inline Tensor zeros(const Shape& shape) { return full(shape, 0); }

/// Zeros for a table of which few rows will be written: a large one takes memory only for these.
inline Tensor sparse_zeros(const Shape& shape) {
  Tensor result = empty(shape);
  BufferPool::clear(result.data(), result.size() * sizeof(real));
  return result;
}

/// A tensor of rank 0.
inline Tensor scalar(real value) { return full({}, value); }

/// The same elements in row-major order under another shape of as many.
inline Tensor reshaped(Tensor x, const Shape& shape) {
  x.reshape(shape);
  return x;
}

/// The index of the element at `offset` in row-major order.
inline Shape index_at(const Shape& shape, std::size_t offset) {
  Shape index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = offset % shape[axis];
    offset /= shape[axis];
  }
  return index;
}

}  // namespace rowgrad
