#pragma once

// Matrix products, each through BLAS's GEMM.

#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// a [..., m, k] times b [..., k, n] → [..., m, n]; leading axes are broadcast as in NumPy. Throws
/// std::invalid_argument for rank 0 or 1 and for shapes that do not fit.
Variable matmul(const Variable& a, const Variable& b);

/// x · weightᵀ + bias: x [..., inputs], weight [outputs, inputs], bias [outputs] → [..., outputs].
/// Throws std::invalid_argument for shapes that do not fit.
Variable linear(const Variable& x, const Variable& weight,
                const std::optional<Variable>& bias = std::nullopt);

/// The checks of linear, for other ops with the same inputs: throws std::invalid_argument naming
/// `caller`.
void check_linear(const char* caller, const Variable& x, const Variable& weight,
                  const std::optional<Variable>& bias);

}  // namespace rowgrad
