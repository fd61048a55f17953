#pragma once

// The cross-entropy of a linear head, logits = x · weightᵀ + bias. Losses and gradients are
// computed for a block of rows at a time, so that logits take at most kLogitBytes.

#include <cstddef>
#include <cstdint>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// The largest number of bytes for logits, unless a single panel of rows needs more.
constexpr std::size_t kLogitBytes = std::size_t{64} << 20;

/// The head, its inputs and its targets.
struct LinearCrossEntropy {
  const real* x;       // [rows, width]
  const real* weight;  // [classes, width]
  const real* bias;    // [classes], or null
  std::size_t rows;
  std::size_t width;
  std::size_t classes;
  const std::int32_t* targets;        // [rows]
  const real* row_weights = nullptr;  // [rows], factors of the losses; null: all 1
};

/// Destinations, or null, for the gradients of scale · Σ factor · loss.
struct HeadGradients {
  real* x = nullptr;
  real* weight = nullptr;
  real* bias = nullptr;
  real scale = 1;
};

/// Returns Σ factor · (log Σ exp(logits) − logit of the target) over the rows. Writes the
/// gradients, unless `rows` or `classes` is 0.
double linear_cross_entropy(const LinearCrossEntropy& head, const HeadGradients& gradients);

}  // namespace rowgrad::kernels
