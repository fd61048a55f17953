#pragma once

// A linear head and its cross-entropy in one pass over the head's weight: logits = x · weightᵀ +
// bias, the losses and all gradients, for a block of rows at a time, so that no more than
// kLogitBytes of logits are ever there.

#include <cstddef>
#include <cstdint>
#include <optional>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Logits that are held at once take no more memory than this, or than those of one panel of rows
/// where that is more.
constexpr std::size_t kLogitBytes = std::size_t{64} << 20;

struct HeadLoss {
  const real* x;       // [rows, width]
  const real* weight;  // [classes, width]
  const real* bias;    // [classes], or null
  std::size_t rows;
  std::size_t width;
  std::size_t classes;
  const std::int32_t* targets;  // [rows], each a class or `ignored`
  std::optional<std::int32_t> ignored = std::nullopt;
};

/// Gradients of scale · Σ losses; null where none is wanted.
struct HeadGradients {
  real* x = nullptr;
  real* weight = nullptr;
  real* bias = nullptr;
  real scale = 1;
};

/// Σ over the rows that count of log Σ exp(logits) − logit of the target; writes the gradients,
/// unless there are no rows or no classes.
double head_loss(const HeadLoss& head, const HeadGradients& gradients);

}  // namespace rowgrad::kernels
