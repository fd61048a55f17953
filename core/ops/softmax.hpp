#pragma once

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// exp(x) / Σ exp(x), and its logarithm, along one axis; large values do not overflow. Throws
/// std::invalid_argument for an axis that x does not have.
Variable softmax(const Variable& x, int axis = -1);
Variable log_softmax(const Variable& x, int axis = -1);

}  // namespace rowgrad
