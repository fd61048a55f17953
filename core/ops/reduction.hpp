#pragma once

// Sums and what is made of them, of all values (the result has rank 0) or along some axes: −1 is
// the last. An axis that x does not have or that is named twice, and a mean or variance of too few
// values, throw std::invalid_argument.

#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Whether a reduced axis stays.
enum class KeepAxes {
  kNo,  // the axis is removed
  kYes  // the axis stays, with length 1
};

/// The sum and the mean of all values, or along these axes.
Variable sum(const Variable& x);
Variable mean(const Variable& x);
Variable sum(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);
Variable mean(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);

/// Running sums along one axis: y[i] = x[0] + … + x[i].
Variable cumsum(const Variable& x, int axis);

/// Options of var() and stddev().
struct VarianceOptions {
  double correction = 1;          // 0 for the variance of the values themselves
  KeepAxes keep = KeepAxes::kNo;  // whether reduced axes stay
};

/// The variance of n values, Σ (x − mean)² / (n − correction), and its square root, the standard
/// deviation, whose gradient is 0 where it is 0. Squares neither overflow nor underflow on the way.
Variable var(const Variable& x);
Variable var(const Variable& x, const std::vector<int>& axes, const VarianceOptions& options = {});
Variable stddev(const Variable& x);
Variable stddev(const Variable& x, const std::vector<int>& axes,
                const VarianceOptions& options = {});

/// The norm √Σ x², which does not overflow on the way; its gradient is 0 where it is 0.
Variable norm(const Variable& x);
Variable norm(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);

}  // namespace rowgrad
