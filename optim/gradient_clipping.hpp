#pragma once

// Norms of gradients, and gradient clipping: torch.nn.utils.clip_grad_norm_ and clip_grad_value_
// (Pascanu, Mikolov & Bengio 2013, "On the difficulty of training recurrent neural networks"). Call
// these functions between backward and the optimizer's step.
//
// A missing gradient counts as zero. The cost of a row gradient depends only on its rows. Row
// gradients and dense gradients give the same norms and clipped values, bit for bit, with any
// number of threads.
//
// All functions throw std::invalid_argument, before they change anything, if an option is outside
// its range or a parameter is null or a duplicate.

#include <functional>
#include <span>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {

/// Returns (Σ |g|^p)^(1/p) over the values g of a gradient if p is 1 or 2, and max |g| if p is
/// infinity. Sums are in double. The result is infinite only if a value or the exact norm is
/// infinite.
double gradient_norm(const Parameter& parameter, double p = 2);

/// Returns the norm of all gradients as one vector; 0 without gradients.
double gradient_norm(std::span<Parameter* const> parameters, double p = 2);

/// Options of clip_grad_norm().
struct ClipNormOptions {
  double p = 2;                      // order of the norm: 1, 2 or infinity
  bool error_if_not_finite = false;  // throw std::runtime_error and change nothing
  /// For sharded tables: gathers the partial sums, or largest magnitudes, of a parameter's gradient
  /// from all ranks, like kernels::AllParts.
  std::function<std::vector<double>(const Parameter&, std::vector<double> parts_here)> all_parts =
      {};
};

/// Multiplies the gradients by min(1, max_norm / (norm + 1e-6)) and returns their previous norm. If
/// the factor is 1, nothing is written. max_norm must be finite and not negative. To measure only,
/// use gradient_norm.
///
/// As in PyTorch, a norm that is not finite is an error only if the options say so. Otherwise, an
/// infinite norm turns finite values into 0 and infinite values into NaN, and a NaN norm turns all
/// stored values into NaN.
double clip_grad_norm(std::span<Parameter* const> parameters, double max_norm,
                      const ClipNormOptions& options = {});

/// Clamps every gradient value to [−limit, limit], where the limit is rounded to `real`; NaN stays
/// NaN. The limit must be finite and not negative.
void clip_grad_value(std::span<Parameter* const> parameters, double limit);

}  // namespace rowgrad
