#pragma once

// Softmax and cross-entropy of each row of `width` values, computed with exp(x − max x), which does
// not overflow (Goodfellow, Bengio & Courville 2016, section 4.1).

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// y = exp(x) / Σ exp(x) in each row.
void softmax_rows(const real* x, std::size_t rows, std::size_t width, real* y);
/// dx = y ∘ (dy − Σ dy ∘ y) in each row.
void softmax_rows_backward(const real* y, const real* dy, std::size_t rows, std::size_t width,
                           real* dx);

/// y = x − log Σ exp(x) in each row.
void log_softmax_rows(const real* x, std::size_t rows, std::size_t width, real* y);
/// dx = dy − exp(y) Σ dy in each row.
void log_softmax_rows_backward(const real* y, const real* dy, std::size_t rows, std::size_t width,
                               real* dx);

/// Σ exp(x) of a row as exp(shift) · sum: the logarithm of the product would lose the digits of the
/// sum where the shift is large.
struct ExpSum {
  real shift;
  double sum;

  /// log Σ exp(x) − x for a number x of the row: what cross-entropy is if x is the target's.
  double above(real x) const {
    return std::log(sum) + (static_cast<double>(shift) - static_cast<double>(x));
  }
};

/// Sums each row, shifted by its largest number. Where that is infinite, the sum is NaN, as softmax
/// is; or, if `shift_is_finite`, the shift is 0 and the sum ∞ or 0.
void exp_sum_rows(const real* x, std::size_t rows, std::size_t width, bool shift_is_finite,
                  ExpSum* sums);
/// The gradient of log Σ exp(x): dx = softmax(x) dy in each row, where dy has one value.
void log_sum_exp_rows_backward(const real* x, const ExpSum* sums, const real* dy, std::size_t rows,
                               std::size_t width, real* dx);

/// Gradient of scale · Σ factor · (log Σ exp(logits) − logit of the target) with respect to the
/// logits: scale · factor · (softmax − one-hot of the target); zero in rows whose factor, in
/// row_weights, is 0, whatever is in them. `sums` are those of exp_sum_rows for the logits.
void cross_entropy_rows_backward(const real* logits, const ExpSum* sums,
                                 const std::int32_t* targets, const real* row_weights, real scale,
                                 std::size_t rows, std::size_t width, real* gradient);

}  // namespace rowgrad::kernels
