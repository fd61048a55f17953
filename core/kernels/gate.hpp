#pragma once

// The gate of an n-gram memory (Cheng et al. 2026, "Conditional Memory via Scalable Lookup",
// arXiv:2601.07372): how much what was looked up, by its key k, suits what is known, x. For each
// row of `width` values, with the root-mean-square norm of kernels/normalize.hpp:
//
//   s = rms_norm(k) · rms_norm(x) / √width,  g = sigmoid(sign(s) √max(|s|, 1e-6))
//
// The slope of g has no bound where s is 0, so rounding is told there more than anywhere else: all
// is computed in double. Its gradient is 0 where |s| < 1e-6.

#include <cstddef>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// What backward needs of a row: 1 / the root mean square of k and of x, and s.
struct GateRow {
  double k_scale;
  double x_scale;
  double score;
};

/// `weights` are the products of both norms' weights, `width` values. Writes a gate and a GateRow
/// for each row.
void gate_rows(const real* k, const real* x, std::size_t rows, std::size_t width,
               const double* weights, double epsilon, real* gates, GateRow* kept);

/// Where gradients go; null if they are not needed.
struct GateGradients {
  real* k = nullptr;
  real* x = nullptr;
  bool add_x = false;       // to what stands there
  real* weights = nullptr;  // of the products of both, `width` values
};

/// From the gradients of the gates. Rows are summed in blocks of a fixed size, so that bits do not
/// depend on the number of threads.
void gate_rows_backward(const real* k, const real* x, std::size_t rows, std::size_t width,
                        const double* weights, const GateRow* kept, const real* gates,
                        const real* d_gates, const GateGradients& gradients);

}  // namespace rowgrad::kernels
