#pragma once

// The size of gradients, and limits on it: torch.nn.utils.clip_grad_norm_ and clip_grad_value_
// (Pascanu, Mikolov & Bengio 2013, "On the difficulty of training recurrent neural networks").
// To be called between backward and the optimizer's step.
//
// A parameter's gradient may be dense, rows, or none, which counts as zeros. What a row gradient
// costs depends on its rows alone, and norms and clipped numbers are those of the dense gradient
// bit for bit, for any number of threads.
//
// Everything here throws std::invalid_argument, before anything changes, for an option outside its
// range, and for a parameter that is null or given twice.

#include <span>

#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {

/// (Σ |g|^p)^(1/p) over the numbers g of a gradient, max |g| for p = infinity; p is above 0. Summed
/// in double and safe from overflow: infinite only where a gradient or the norm itself is.
double gradient_norm(const Parameter& parameter, double p = 2);

/// The norm over the gradients of several parameters, as if they were one; 0 if there are none.
double gradient_norm(std::span<Parameter* const> parameters, double p = 2);

struct ClipNormOptions {
  double p = 2;                      // of the norm: above 0, may be infinity
  bool error_if_not_finite = false;  // std::runtime_error, and nothing changes
};

/// Multiplies the gradients by min(1, max_norm / (norm + 1e-6)) and returns the norm they had
/// (gradient_norm). Where that factor is 1, no number is written. max_norm is finite and not below
/// 0; to measure only, see gradient_norm.
///
/// A norm that is not finite is, unless options say so, no error, as in PyTorch: an infinite one
/// makes finite numbers 0 and infinite ones NaN, and a NaN makes all of them NaN (of a row
/// gradient, those of its rows).
double clip_grad_norm(std::span<Parameter* const> parameters, double max_norm,
                      const ClipNormOptions& options = {});

/// Brings every number of the gradients into [−limit, limit], the nearest `real` to the limit; NaN
/// stays NaN. The limit is finite and not below 0.
void clip_grad_value(std::span<Parameter* const> parameters, double limit);

}  // namespace rowgrad
