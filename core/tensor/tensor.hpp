#pragma once

// Tensors: row-major xtensor arrays of any rank in pooled memory. All xtensor functions accept
// them. Assign an xtensor expression to a Tensor in the statement that creates it, never to `auto`:
// the expression refers to its operands. Functions throw std::invalid_argument for a shape that no
// memory could hold, before they allocate memory.
//
// Braces hold values, even in parentheses: `Tensor({2, 3})` has the values 2 and 3, like
// torch.tensor([2, 3]). Use zeros({2, 3}), full() or empty() for a shape. `Tensor()` has one
// element, which is not initialised.

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string_view>

#include <rowgrad/core/base/buffer_pool.hpp>
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/tensor/ids.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

namespace rowgrad {

/// The element type of tensors: float in the library `rowgrad`, double in `rowgrad_double`. A
/// program must use only one of these libraries.
#if defined(ROWGRAD_DOUBLE)
using real = double;
#else
using real = float;
#endif

// The two libraries use the same names for different types, so their object files must not be
// mixed. Code that includes this header refers to a symbol that only its own library defines.
namespace link_check {
#if defined(ROWGRAD_DOUBLE)
extern const char numbers_are_double;
[[gnu::used]] static const char* const mark = &numbers_are_double;
#else
extern const char numbers_are_float;
[[gnu::used]] static const char* const mark = &numbers_are_float;
#endif
}  // namespace link_check

/// An array that owns its memory. As in xtensor, rows in braces must have equal lengths; this is
/// not checked.
using Tensor = xt::xarray<real, xt::layout_type::row_major, PoolAllocator<real>>;

using Shape = Tensor::shape_type;  // extents of the axes

/// Return the number of elements of a shape. If the product of its nonzero extents is more than
/// memory could hold, checked_element_count() returns nullopt, and element_count() throws
/// std::invalid_argument naming `caller` and the shape.
std::optional<std::size_t> checked_element_count(const Shape& shape);
std::size_t element_count(const Shape& shape, std::string_view caller = "Tensor");

/// Return a tensor whose elements are uninitialised, all `value`, or all 0.
Tensor empty(const Shape& shape);
Tensor full(const Shape& shape, real value);
inline Tensor zeros(const Shape& shape) { return full(shape, 0); }

/// Returns zeros for a table. A large table uses memory only for rows that are written.
Tensor sparse_zeros(const Shape& shape);

/// Returns a tensor of rank 0.
inline Tensor scalar(real value) { return full({}, value); }

/// Returns the elements of x, in row-major order, with another shape. Throws std::invalid_argument
/// if the shape has a different number of elements.
Tensor reshaped(Tensor x, const Shape& shape);

/// Returns the index of the element at `offset` in row-major order.
Shape index_at(const Shape& shape, std::size_t offset);

/// Prints a tensor, abbreviated if it is long: {{1., 2.5}, {0., 3.}}.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

/// Prints ids: {{29, 20}, {16777217, 3}}.
std::ostream& operator<<(std::ostream& stream, const Ids& ids);

}  // namespace rowgrad
