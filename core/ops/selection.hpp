#pragma once

// Selecting values: the larger of two, the largest along an axis, or those that a mask or ids name.
// Shapes that do not fit, ids outside the axis, and axes that x does not have throw
// std::invalid_argument.

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// The larger and the smaller of two values, broadcast as in arithmetic; NaN if either is NaN.
/// Where they are equal, each gets half of the gradient; where either is NaN, both get all of it.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);

/// The largest and the smallest value along one axis, which is removed; NaN if there is one. The
/// gradient goes to the first of several equal values. The axis must have entries.
Variable max(const Variable& x, int axis);
Variable min(const Variable& x, int axis);

/// The index of the largest or the smallest value along one axis.
Ids argmax(const Variable& x, int axis);
Ids argmin(const Variable& x, int axis);

/// Values picked along one axis, as by torch.gather: for axis 1 of three, y[i, j, k] =
/// x[i, ids[i, j, k], k]. The ids have as many axes as x, none of them longer but this one, and y
/// has their shape. The gradients of a value that is picked several times are added up.
Variable gather(const Variable& x, int axis, const Ids& ids);

/// a where the condition is not 0 (NaN is not 0), else b; all three are broadcast. The condition
/// gets no gradient.
Variable where(const Variable& condition, const Variable& a, const Variable& b);

/// `number` where the mask is not 0, else x. The mask is broadcast to the shape of x.
Variable masked_fill(const Variable& x, const Variable& mask, real number);

}  // namespace rowgrad
