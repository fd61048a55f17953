#pragma once

// Norms of gradients, and gradient clipping: torch.nn.utils.clip_grad_norm_ and clip_grad_value_
// (Pascanu, Mikolov & Bengio 2013, "On the difficulty of training recurrent neural networks"). Call
// these functions between backward and the optimizer's step.
//
// A parameter's gradient may be dense, rows, or none, which counts as zeros. The cost for a row
// gradient depends only on its rows, and norms and clipped values equal those of the dense gradient
// bit for bit, for any number of threads.
//
// All functions throw std::invalid_argument, before they change anything, for an option outside its
// range and for a parameter that is null or given twice.

#include <functional>
#include <span>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {

/// (Σ |g|^p)^(1/p) over the values g of a gradient for p = 1 or 2, max |g| for p = infinity. Summed
/// in double without overflow: infinite only if a value or the norm itself is.
double gradient_norm(const Parameter& parameter, double p = 2);

/// The norm of the gradients of several parameters, taken as one vector; 0 if there are none.
double gradient_norm(std::span<Parameter* const> parameters, double p = 2);

/// Options of clip_grad_norm().
struct ClipNormOptions {
  double p = 2;                      // order of the norm: 1, 2 or infinity
  bool error_if_not_finite = false;  // throw std::runtime_error, change nothing
  /// For rows that are in several processes: completes the partial sums, or the largest magnitude,
  /// of a parameter's gradient, as kernels::AllParts does.
  std::function<std::vector<double>(const Parameter&, std::vector<double> parts_here)> all_parts =
      {};
};

/// Multiplies the gradients by min(1, max_norm / (norm + 1e-6)) and returns the norm they had
/// before. If the factor is 1, nothing is written. max_norm must be finite and not negative. To
/// measure only, use gradient_norm.
///
/// As in PyTorch, a norm that is not finite is an error only if the options say so. Otherwise, an
/// infinite norm turns finite values into 0 and infinite ones into NaN, and a NaN norm turns all
/// values into NaN (of a row gradient, those of its rows).
double clip_grad_norm(std::span<Parameter* const> parameters, double max_norm,
                      const ClipNormOptions& options = {});

/// Limits every value of the gradients to [−limit, limit], with the limit rounded to `real`; NaN
/// stays NaN. The limit must be finite and not negative.
void clip_grad_value(std::span<Parameter* const> parameters, double limit);

}  // namespace rowgrad
