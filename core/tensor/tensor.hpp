#pragma once

// Tensors: row-major xtensor arrays of any rank in pooled memory. All xtensor functions accept
// them. Store an xtensor expression in a Tensor within the statement that creates it, never in an
// `auto`: the expression refers to its operands. Shapes that no memory could hold are refused with
// std::invalid_argument before any is requested.
//
// Braces hold values, also in parentheses: `Tensor({2, 3})` has the values 2 and 3, as
// torch.tensor([2, 3]) has. Tensors of a shape come from zeros({2, 3}), full() and empty().
// `Tensor()` has one value, which is not set.

#include <cstddef>
#include <iosfwd>
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

/// An array of values that owns its memory. It is xtensor's array: rows in braces must have equal
/// lengths, which nothing checks, and `Tensor({2, 3})` has two values.
using Tensor = xt::xarray<real, xt::layout_type::row_major, PoolAllocator<real>>;

using Shape = Tensor::shape_type;  // extents of the axes

/// The number of elements of an array of this shape. If memory could never hold that many, even
/// without the extents that are 0, checked_element_count() returns nullopt, and element_count()
/// throws std::invalid_argument naming `caller` and the shape.
std::optional<std::size_t> checked_element_count(const Shape& shape);
std::size_t element_count(const Shape& shape, std::string_view caller = "Tensor");

/// Tensors whose elements are uninitialised, all `value`, or all 0.
Tensor empty(const Shape& shape);
Tensor full(const Shape& shape, real value);
inline Tensor zeros(const Shape& shape) { return full(shape, 0); }

/// Zeros for a table of which few rows will be written: a large one takes memory only for these.
Tensor sparse_zeros(const Shape& shape);

/// A tensor of rank 0.
inline Tensor scalar(real value) { return full({}, value); }

/// Returns the elements of x, in row-major order, under another shape. Throws std::invalid_argument
/// if the shape has another number of elements.
Tensor reshaped(Tensor x, const Shape& shape);

/// The index of the element at `offset` in row-major order.
Shape unravel_index(const Shape& shape, std::size_t offset);
[[deprecated("use unravel_index()")]] inline Shape index_at(const Shape& shape,
                                                            std::size_t offset) {
  return unravel_index(shape, offset);
}

/// Prints a tensor as xtensor does, long ones cut short: {{1., 2.5}, {0., 3.}}.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

/// Prints ids as whole numbers: {{29, 20}, {16777217, 3}}.
std::ostream& operator<<(std::ostream& stream, const Ids& ids);

}  // namespace rowgrad
