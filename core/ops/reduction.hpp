#pragma once

// Sums, means, variances, products, extremes and norms, of all elements (the result is a scalar) or
// along some axes; axis −1 is the last. Axes out of range or repeated, and a mean, variance or
// extreme of too few elements, throw std::invalid_argument.

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

/// Return the product of all elements, or along `axes`. Zeros get correct gradients.
Variable prod(const Variable& x);
Variable prod(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);

/// Return the largest or smallest element, or NaN if any element is NaN. Equal elements, or NaNs,
/// get equal shares of the gradient, as in torch.max(x). max() of one axis is in selection.hpp.
Variable max(const Variable& x);
Variable min(const Variable& x);
Variable amax(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);
Variable amin(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);

/// Return running sums or products along one axis: y[i] = x[0] + … + x[i].
Variable cumsum(const Variable& x, int axis);
Variable cumprod(const Variable& x, int axis);

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

/// Returns the norm (Σ |x|^p)^(1/p), p = order > 0, or max |x| if order is infinity. See norm().
Variable vector_norm(const Variable& x, double order);
Variable vector_norm(const Variable& x, double order, const std::vector<int>& axes,
                     KeepAxes keep = KeepAxes::kNo);

}  // namespace rowgrad
