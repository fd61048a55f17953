#pragma once

// Ops that rearrange values. Axes may be counted from the end: −1 is the last. All throw
// std::invalid_argument naming the op and the shapes if the arguments do not fit.

#include <cstddef>
#include <limits>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// The values in row-major order with another shape of the same size.
Variable reshape(const Variable& x, const Shape& shape);

/// Axis i of the result is axis axes[i] of x.
Variable permute(const Variable& x, const std::vector<int>& axes);

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

}  // namespace rowgrad
