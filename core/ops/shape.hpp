#pragma once

// Ops that rearrange values. Axes may be counted from the end: −1 is the last. All throw
// std::invalid_argument naming the op and the shapes if the arguments do not fit.

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// The values in row-major order with another shape of the same size.
Variable reshape(const Variable& x, const Shape& shape);

/// Axis i of the result is axis axes[i] of x.
Variable permute(const Variable& x, const std::vector<int>& axes);

/// A tensor with its axes permuted; `axes` count from 0, and are a permutation of those of x.
Tensor permuted(const Tensor& x, const std::vector<std::size_t>& axes);

/// Exchanges two axes, by default the last two.
Variable transpose(const Variable& x, int first = -2, int second = -1);

/// Joins variables along one axis, the only one on which their shapes may differ.
Variable concatenate(const std::vector<Variable>& parts, int axis);

/// The entries begin, begin + step, … below end along one axis. Negative begin and end count from
/// the end of the axis, as in Python; ranges that leave the axis throw instead of being truncated.
constexpr std::ptrdiff_t kAxisEnd = std::numeric_limits<std::ptrdiff_t>::max();
Variable slice(const Variable& x, int axis, std::ptrdiff_t begin, std::ptrdiff_t end = kAxisEnd,
               std::size_t step = 1);

/// Pieces of `length` entries along one axis; the last one may be shorter.
std::vector<Variable> split(const Variable& x, std::size_t length, int axis);

/// Joins variables of the same shape along a new axis; `axis` is its index in the result.
Variable stack(const std::vector<Variable>& parts, int axis = 0);

/// unsqueeze inserts an axis of length 1 at index `axis` of the result; squeeze removes one.
Variable unsqueeze(const Variable& x, int axis);
Variable squeeze(const Variable& x, int axis);

/// Joins each row to those before it: x [..., length, width] → [..., length, steps · width], the
/// oldest first, with zeros before the start. With one step, it returns x.
Variable causal_unfold(const Variable& x, std::size_t steps);

/// Former name of causal_unfold().
[[deprecated("use causal_unfold()")]] inline Variable look_back(const Variable& x,
                                                                std::size_t steps) {
  return causal_unfold(x, steps);
}

/// The number of an axis, counted from 0, for ops that take one.
inline std::size_t resolve_axis(std::string_view op, int axis, std::size_t rank) {
  const int count = static_cast<int>(rank);
  check_argument(axis >= -count && axis < count, op, ": axis ", axis, " is outside a rank of ",
                 rank);
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

/// For each axis whether it is named, for ops that take several; none may be named twice.
inline std::vector<bool> resolve_axes(std::string_view op, const std::vector<int>& axes,
                                      std::size_t rank) {
  std::vector<bool> marked(rank);
  for (const int axis : axes) {
    const std::size_t index = resolve_axis(op, axis, rank);
    check_argument(!marked[index], op, ": axis ", axis, " is named twice");
    marked[index] = true;
  }
  return marked;
}

/// A shape split at one axis: the number of elements before, along and after it.
struct AxisView {
  std::size_t outer = 1;   // elements before the axis
  std::size_t extent = 1;  // elements along the axis
  std::size_t inner = 1;   // elements after the axis

  /// Splits a shape at an axis that it has.
  AxisView(const Shape& shape, std::size_t axis) : extent(shape[axis]) {
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  }
};

}  // namespace rowgrad
