#pragma once

// Matrix products, each through BLAS's GEMM. Shapes that do not fit throw std::invalid_argument.

#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// a [..., m, k] times b [..., k, n] → [..., m, n]; leading axes are broadcast as in NumPy.
Variable matmul(const Variable& a, const Variable& b);

/// x · weightᵀ + bias: x [..., inputs], weight [outputs, inputs], bias [outputs] → [..., outputs].
Variable linear(const Variable& x, const Variable& weight,
                const std::optional<Variable>& bias = std::nullopt);

/// Checks the inputs of linear(), for other ops that take the same.
void check_linear(const char* caller, const Variable& x, const Variable& weight,
                  const std::optional<Variable>& bias);

}  // namespace rowgrad
