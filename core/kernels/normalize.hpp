#pragma once

// Layer normalisation (Ba, Kiros & Hinton 2016, "Layer Normalization") and root-mean-square
// normalisation (Zhang & Sennrich 2019) of each row of `width` values, width ≥ 1:
//
//   layer:             x̂ = (x − mean) / sqrt(variance + epsilon), with variance = mean (x − mean)²
//   root mean square:  x̂ = x / sqrt(mean x² + epsilon)
//
// The mean is subtracted in two steps, rounded and then what was rounded away. So the error of x̂ is
// that of a row whose mean is near 0, however large the mean: with u half the spacing of numbers at
// 1, below (width / kLanes / 4 + 30) u max(1, |x̂|), where rows count as at most 4096 wide.
// A row that has NaN or infinity changes no other row.

#include <cstddef>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

enum class RowNorm { kLayer, kRootMeanSquare };

/// How a row is normalised: x̂ = (x − shift) · scale + offset. It is all that backward needs.
struct RowScaling {
  real shift;
  real scale;
  real offset;
};

/// y = x̂ ∘ weight + bias in each row; weight and bias have `width` values. Without a bias in the
/// root-mean-square norm. Writes one RowScaling for each row.
void normalize_rows(RowNorm norm, const real* x, std::size_t rows, std::size_t width,
                    const real* weight, const real* bias, double epsilon, real* y,
                    RowScaling* scalings);

/// Where gradients go; null for those that are not needed.
struct NormGradients {
  real* x = nullptr;  // [rows, width]; may be the array of dy
  real* weight = nullptr;
  real* bias = nullptr;
};

/// With g = dy ∘ weight:  dx = scale · (g − mean g − x̂ mean (g ∘ x̂)), without mean g in the
/// root-mean-square norm; dweight = Σ dy ∘ x̂ and dbias = Σ dy over the rows, in fixed blocks of
/// rows, so that the threads do not change the bits.
void normalize_rows_backward(RowNorm norm, const real* x, const real* dy, std::size_t rows,
                             std::size_t width, const real* weight, const RowScaling* scalings,
                             const NormGradients& gradients);

}  // namespace rowgrad::kernels
