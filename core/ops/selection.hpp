#pragma once

// Ops that select elements: by size, by a mask or by ids. Wrong shapes, ids and axes throw
// std::invalid_argument.

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Return the larger or smaller of two elements, with broadcasting; NaN if either is NaN. Equal
/// elements get half of the gradient each. If either is NaN, both get the whole gradient.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);

/// Return the largest or smallest element along one axis, which is removed and must not be empty.
/// The result is NaN if any element is. The gradient goes to the first of several equal elements.
Variable max(const Variable& x, int axis);
Variable min(const Variable& x, int axis);

/// Return the indices of the elements that max() and min() return.
Ids argmax(const Variable& x, int axis);
Ids argmin(const Variable& x, int axis);

/// Picks elements along one axis, like torch.gather: for axis 1 of three, y[i, j, k] = x[i, ids[i,
/// j, k], k]. The ids must have the rank of x; only this axis may be longer. y has the shape of the
/// ids. The gradient of an element is the sum over its uses.
Variable gather(const Variable& x, int axis, const Ids& ids);

/// Returns a where the condition is nonzero or NaN, else b, with broadcasting. The condition gets
/// no gradient.
Variable where(const Variable& condition, const Variable& a, const Variable& b);

/// Returns `value` where the mask is nonzero or NaN, else x. The mask must broadcast to the shape
/// of x.
Variable masked_fill(const Variable& x, const Variable& mask, real value);

}  // namespace rowgrad
