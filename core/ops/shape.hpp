#pragma once

// Ops that rearrange elements. Negative axes count from the end: −1 is the last. Invalid arguments
// throw std::invalid_argument naming the op.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Gives x another shape of the same size; elements stay in row-major order.
Variable reshape(const Variable& x, const Shape& shape);

/// Permutes the axes: axis i of the result is axis axes[i] of x.
Variable permute(const Variable& x, const std::vector<int>& axes);

/// Permutes the axes of a tensor. Requires: `axes` is a permutation of 0 … rank − 1.
Tensor permuted(const Tensor& x, const std::vector<std::size_t>& axes);

/// Swaps two axes, by default the last two.
Variable transpose(const Variable& x, int first = -2, int second = -1);

/// Joins variables along one axis, the only one on which their shapes may differ.
Variable concatenate(const std::vector<Variable>& parts, int axis);

/// The end of an axis.
constexpr std::ptrdiff_t kAxisEnd = std::numeric_limits<std::ptrdiff_t>::max();

/// Takes the indices begin, begin + step, … below end of one axis. Negative begin and end count
/// from the end of the axis. Ranges beyond the axis throw.
Variable slice(const Variable& x, int axis, std::ptrdiff_t begin, std::ptrdiff_t end = kAxisEnd,
               std::size_t step = 1);

/// Splits x along one axis into parts of length `length`. The last part may be shorter. An axis of
/// length 0 has one part.
std::vector<Variable> split(const Variable& x, std::size_t length, int axis);

/// Splits x along one axis into at most `count` parts of equal length. The last may be shorter. An
/// axis of length 0 has `count` parts.
std::vector<Variable> chunk(const Variable& x, std::size_t count, int axis = 0);

/// Returns the slices of x along one axis, which is removed.
std::vector<Variable> unbind(const Variable& x, int axis = 0);

/// Joins variables of the same shape along a new axis; `axis` is its index in the result.
Variable stack(const std::vector<Variable>& parts, int axis = 0);

/// Inserts an axis of length 1, with index `axis` in the result.
Variable unsqueeze(const Variable& x, int axis);

/// Removes axis `axis`, whose length must be 1.
Variable squeeze(const Variable& x, int axis);

/// Broadcasts x to a shape.
Variable expand(const Variable& x, const Shape& shape);

/// Joins counts[i] copies of x along each axis i, as torch.Tensor.repeat does. More counts than
/// axes add axes in front.
Variable repeat(const Variable& x, const Shape& counts);

/// Reverses the order of elements along the axes.
Variable flip(const Variable& x, const std::vector<int>& axes);

/// Moves elements `shift` places towards the end of one axis, and from the end to the start.
Variable roll(const Variable& x, std::ptrdiff_t shift, int axis);

/// Adds elements before and after the last axis, then the axis before it, and so on: amounts are
/// {before, after, before, after …}, as in PyTorch.
Variable pad(const Variable& x, const std::vector<std::size_t>& amounts, real value = 0);

/// Set elements of matrices [..., rows, columns] to 0: tril() above a diagonal, triu() below it.
/// Diagonal d contains the elements (i, i + d).
Variable tril(const Variable& x, std::ptrdiff_t diagonal = 0);
Variable triu(const Variable& x, std::ptrdiff_t diagonal = 0);

/// Joins each row with the steps − 1 rows before it, oldest first, with zeros before the start:
/// x [..., length, width] → [..., length, steps · width]. If steps is 1, returns x itself.
Variable causal_unfold(const Variable& x, std::size_t steps);

/// Former name of causal_unfold().
[[deprecated("use causal_unfold()")]] inline Variable look_back(const Variable& x,
                                                                std::size_t steps) {
  return causal_unfold(x, steps);
}

/// Returns `axis` counted from 0. As in PyTorch, a scalar also has an axis 0, of length 1.
inline std::size_t resolve_axis(std::string_view op, int axis, std::size_t rank) {
  const int count = std::max(1, static_cast<int>(rank));
  check_argument(axis >= -count && axis < count, op, ": axis ", axis, " is out of range for rank ",
                 rank);
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

/// Returns a mask [rank] of the axes in `axes`, which must not repeat.
inline std::vector<bool> resolve_axes(std::string_view op, const std::vector<int>& axes,
                                      std::size_t rank) {
  std::vector<bool> marked(std::max<std::size_t>(rank, 1));
  for (const int axis : axes) {
    const std::size_t index = resolve_axis(op, axis, rank);
    check_argument(!marked[index], op, ": duplicate axis ", axis);
    marked[index] = true;
  }
  marked.resize(rank);
  return marked;
}

/// A shape [outer, extent, inner] that joins the axes before one axis, and the axes after it.
struct AxisView {
  std::size_t outer = 1;   // product of the lengths of earlier axes
  std::size_t extent = 1;  // length of the axis
  std::size_t inner = 1;   // product of the lengths of later axes

  /// Requires: `axis` is a result of resolve_axis().
  AxisView(const Shape& shape, std::size_t axis) {
    for (std::size_t i = 0; i < shape.size(); ++i)
      (i < axis ? outer : i == axis ? extent : inner) *= shape[i];
  }
};

}  // namespace rowgrad
