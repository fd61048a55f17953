#pragma once

// Layer normalisation (Ba, Kiros & Hinton 2016, "Layer Normalization") and root-mean-square
// normalisation (Zhang & Sennrich 2019, "Root Mean Square Layer Normalization") of each row of
// `width` values, width ≥ 1:
//
//   layer:             x̂ = (x − mean) / sqrt(variance + epsilon), variance = mean (x − mean)²
//   root mean square:  x̂ = x / sqrt(mean x² + epsilon)
//
// The mean is subtracted in two steps, a number near it and the rest. So x̂ is as exact where the
// mean is large as where it is 0: with n = min(width, 1024) / kLanes + kLanes and the rounding
// error u = epsilon / 2 of a `real`, the error is below 16 (n + 4) u max(1, |x̂|), and of the order
// of sqrt(n) u in practice. A row with NaN or infinity is NaN, and changes no other row.

#include <cstddef>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

enum class RowNorm { kLayer, kRootMeanSquare };

/// How a row is normalised: x̂ = (x − shift) · scale + offset. Backward needs nothing else.
struct RowScaling {
  real shift;
  real scale;
  real offset;
};

/// y = x̂ ∘ weight + bias in each row; weight and bias have `width` values. The root-mean-square
/// norm has no bias. Writes one RowScaling a row.
void normalize_rows(RowNorm norm, const real* x, std::size_t rows, std::size_t width,
                    const real* weight, const real* bias, double epsilon, real* y,
                    RowScaling* scalings);

/// Where gradients go; null if they are not needed.
struct NormGradients {
  real* x = nullptr;       // may be the array of dy
  bool add_x = false;      // to what stands there
  real* weight = nullptr;  // `width` values, as has the next
  real* bias = nullptr;
};

/// With g = dy ∘ weight: dx = scale · (g − mean g − x̂ mean (g ∘ x̂)), where the root-mean-square
/// norm has no mean g; dweight = Σ dy ∘ x̂ and dbias = Σ dy over the rows. Rows are summed in blocks
/// of a fixed size, so that bits do not depend on the number of threads.
void normalize_rows_backward(RowNorm norm, const real* x, const real* dy, std::size_t rows,
                             std::size_t width, const real* weight, const RowScaling* scalings,
                             const NormGradients& gradients);

}  // namespace rowgrad::kernels
