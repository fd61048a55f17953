#pragma once

// Sums, means, variances and norms, of all elements (the result is a scalar) or along some axes;
// axis −1 is the last. Axes out of range or repeated, and a mean or variance of too few elements,
// throw std::invalid_argument.

#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// The treatment of reduced axes, like PyTorch's `keepdim`.
enum class KeepAxes {
  kNo,  // removed
  kYes  // kept, with length 1
};

/// Return the sum or mean of all elements, or along `axes`.
Variable sum(const Variable& x);
Variable mean(const Variable& x);
Variable sum(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);
Variable mean(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);

/// Returns running sums along one axis: y[i] = x[0] + … + x[i].
Variable cumsum(const Variable& x, int axis);

/// Options of var() and stddev().
struct VarianceOptions {
  double correction = 1;          // 0 for the biased (population) variance
  KeepAxes keep = KeepAxes::kNo;  // for the reduced axes
};

/// Return the variance Σ (x − mean)² / (n − correction) of n elements, or its square root, the
/// standard deviation. The gradient of a standard deviation of 0 is 0. Intermediate squares do not
/// overflow or underflow.
Variable var(const Variable& x);
Variable var(const Variable& x, const std::vector<int>& axes, const VarianceOptions& options = {});
Variable stddev(const Variable& x);
Variable stddev(const Variable& x, const std::vector<int>& axes,
                const VarianceOptions& options = {});

/// Returns the norm √Σ x². Squares do not overflow. The gradient of a norm of 0 is 0.
Variable norm(const Variable& x);
Variable norm(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);

}  // namespace rowgrad
