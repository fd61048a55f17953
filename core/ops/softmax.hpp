#pragma once

#include <rowgrad/core/autograd/variable.hpp>
#include <rowgrad/core/ops/reduction.hpp>

namespace rowgrad {

/// exp(x) / Σ exp(x), and its logarithm, along one axis; large values do not overflow. Throws
/// std::invalid_argument for an axis that x does not have.
Variable softmax(const Variable& x, int axis = -1);
Variable log_softmax(const Variable& x, int axis = -1);

/// log Σ exp(x) along one axis, which is removed unless it is kept; −∞ for no values. Throws
/// std::invalid_argument for an axis that x does not have.
Variable logsumexp(const Variable& x, int axis = -1, KeepAxes keep = KeepAxes::kNo);

}  // namespace rowgrad
