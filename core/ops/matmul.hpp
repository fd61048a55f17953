#pragma once

// Matrix products. Shape mismatches throw std::invalid_argument.

#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Multiplies a [..., m, k] by b [..., k, n] → [..., m, n]. Leading axes are broadcast as in NumPy.
/// A vector a [k] is one row, and a vector b [k] one column; the result lacks that axis.
Variable matmul(const Variable& a, const Variable& b);

/// Returns the products a[i] · b[j] of two vectors.
Variable outer(const Variable& a, const Variable& b);

/// Computes x · weightᵀ + bias: x [..., inputs], weight [outputs, inputs], bias [outputs] → [...,
/// outputs].
Variable linear(const Variable& x, const Variable& weight,
                const std::optional<Variable>& bias = std::nullopt);

/// Throws std::invalid_argument, naming `caller`, unless linear() accepts the inputs.
void check_linear(const char* caller, const Variable& x, const Variable& weight,
                  const std::optional<Variable>& bias);

}  // namespace rowgrad
