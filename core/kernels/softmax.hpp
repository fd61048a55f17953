#pragma once

// Softmax and cross-entropy of rows of `width` values, computed with exp(x − max x), which does not
// overflow (Goodfellow, Bengio & Courville 2016, section 4.1).

#include <cmath>
#include <cstddef>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Computes y = exp(x) / Σ exp(x) in each row.
void softmax_rows(const real* x, std::size_t rows, std::size_t width, real* y);
/// Computes dx = y ∘ (dy − Σ dy ∘ y) in each row.
void softmax_rows_backward(const real* y, const real* dy, std::size_t rows, std::size_t width,
                           real* dx);

/// Computes y = x − log Σ exp(x) in each row.
void log_softmax_rows(const real* x, std::size_t rows, std::size_t width, real* y);
/// Computes dx = dy − exp(y) Σ dy in each row.
void log_softmax_rows_backward(const real* y, const real* dy, std::size_t rows, std::size_t width,
                               real* dx);

/// Σ exp(x) of a row, as exp(shift) · sum. The logarithm of the product would lose digits of the
/// sum if the shift is large.
struct ExpSum {
  real shift;
  double sum;

  /// Returns log(exp(shift) · sum) − x, the cross-entropy if x is the target's logit.
  double above(real x) const {
    return std::log(sum) + (static_cast<double>(shift) - static_cast<double>(x));
  }
};

/// Sums exp(x) of each row, shifted by its largest value. If the largest value is infinite, the sum
/// is NaN, like softmax. With `shift_is_finite`, the shift is 0 instead, and the sum ∞ or 0.
void exp_sum_rows(const real* x, std::size_t rows, std::size_t width, bool shift_is_finite,
                  ExpSum* sums);
/// Computes the gradient of log Σ exp(x): dx = softmax(x) · dy in each row, with one dy per row.
void log_sum_exp_rows_backward(const real* x, const ExpSum* sums, const real* dy, std::size_t rows,
                               std::size_t width, real* dx);

/// The losses of rows of logits: weight · Σ q · (z − logit) over the classes, where z is log Σ
/// exp(logits), and q is class weight · smoothing / width. The target's q is larger by class weight
/// · (1 − smoothing).
struct CrossEntropyRows {
  Ids targets;
  Tensor weights;        // [rows]; 0: no loss, and zero gradients even for NaN logits
  Tensor class_weights;  // [width]
  real smoothing;
  std::vector<ExpSum, PoolAllocator<ExpSum>> sums = {};  // from exp_sum_rows(); empty: z is 0

  real of_target(std::size_t row) const {
    return weights.data()[row] * ((1 - smoothing) * class_weights.data()[targets.data()[row]]);
  }
  real of_each(std::size_t row) const {
    return weights.data()[row] * (smoothing / static_cast<real>(class_weights.size()));
  }
};

/// Computes the loss of each row.
void cross_entropy_rows(const real* logits, const CrossEntropyRows& rows, double* losses);
/// Computes the gradient of the logits, with one dy per row.
void cross_entropy_rows_backward(const real* logits, const CrossEntropyRows& rows, const real* dy,
                                 real* gradient);

}  // namespace rowgrad::kernels
