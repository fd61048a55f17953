#pragma once

// Softmax and cross-entropy of rows of `width` values, computed with exp(x − max x), which does not
// overflow (Goodfellow, Bengio & Courville 2016, section 4.1).

#include <cmath>
#include <cstddef>
#include <cstdint>

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

/// Computes the gradient of scale · Σ factor · (log Σ exp(logits) − logit of the target) with
/// respect to the logits: scale · factor · (softmax − one-hot of the target). Rows whose factor, in
/// row_weights, is 0 get zeros, even for NaN logits. `sums` come from exp_sum_rows().
void cross_entropy_rows_backward(const real* logits, const ExpSum* sums,
                                 const std::int32_t* targets, const real* row_weights, real scale,
                                 std::size_t rows, std::size_t width, real* gradient);

}  // namespace rowgrad::kernels
