#pragma once

// Tensors: row-major xtensor arrays of any rank in pooled memory. All xtensor functions accept
// them. Store an xtensor expression in a Tensor within the statement that creates it, never in an
// `auto`: the expression refers to its operands. Shapes that no memory could hold are refused with
// std::invalid_argument before any is requested.

#include <cstddef>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string_view>

#include <rowgrad/core/base/buffer_pool.hpp>
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/tensor/ids.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

namespace rowgrad {

/// The type of the values in tensors. A program has only one: the library `rowgrad` is built with
/// float, `rowgrad_double` with double.
#if defined(ROWGRAD_DOUBLE)
using real = double;
#else
using real = float;
#endif

// The two libraries give the same names to different types, so their object files must not be
// mixed. Code that sees `real` refers to a symbol that only its own library defines.
namespace link_check {
#if defined(ROWGRAD_DOUBLE)
extern const char numbers_are_double;
[[gnu::used]] static const char* const mark = &numbers_are_double;
#else
extern const char numbers_are_float;
[[gnu::used]] static const char* const mark = &numbers_are_float;
#endif
}  // namespace link_check

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

/// The same, but throws std::invalid_argument naming `caller` and the shape.
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

/// Prints a tensor as xtensor does, long ones cut short: {{1., 2.5}, {0., 3.}}.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

/// Prints ids as whole numbers: {{29, 20}, {16777217, 3}}.
std::ostream& operator<<(std::ostream& stream, const Ids& ids);

}  // namespace rowgrad
