#pragma once

// Softmax and cross-entropy of each row of `width` values, computed with exp(x − max x), which does
// not overflow (Goodfellow, Bengio & Courville 2016, section 4.1).

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

/// log Σ exp(x) of each row, in double: it may be large while small differences from x matter.
void log_sum_exp_rows(const real* x, std::size_t rows, std::size_t width, double* result);
/// dx = exp(x − log_sum) dy in each row, where dy has one value.
void log_sum_exp_rows_backward(const real* x, const double* log_sums, const real* dy,
                               std::size_t rows, std::size_t width, real* dx);

/// Gradient of scale · Σ factor · (log_sum_exp − logit of the target) with respect to the logits:
/// scale · factor · (softmax − one-hot of the target); zero in rows whose factor, in row_weights,
/// is 0, whatever is in them. `log_sums` are the results of log_sum_exp_rows for the logits.
void cross_entropy_rows_backward(const real* logits, const double* log_sums,
                                 const std::int32_t* targets, const real* row_weights, real scale,
                                 std::size_t rows, std::size_t width, real* gradient);

}  // namespace rowgrad::kernels
