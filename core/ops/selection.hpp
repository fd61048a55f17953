#pragma once

// Which of several numbers: the larger one, the largest along an axis, the one that a mask says.

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// The larger and the smaller of two numbers, broadcast as in arithmetic; NaN if one of them is.
/// Where they are equal, each gets half of the gradient.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);

/// The largest number along one axis, which goes away; NaN if there is one. The gradient goes to
/// the first of several that are equal. Throws std::invalid_argument for an axis that x does not
/// have or that has no entries.
Variable max(const Variable& x, int axis);

/// Where along the axis it stands.
Ids argmax(const Variable& x, int axis);

/// a where the condition is not 0 (NaN is not), else b; all three are broadcast. The condition gets
/// no gradient. Throws std::invalid_argument for shapes that do not fit.
Variable where(const Variable& condition, const Variable& a, const Variable& b);

/// `number` where the mask is not 0, else x. The mask is broadcast to the shape of x.
Variable masked_fill(const Variable& x, const Variable& mask, real number);

}  // namespace rowgrad
