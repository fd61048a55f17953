#pragma once

// Backward rules against central differences: (f(x + h) − f(x − h)) / 2h for every entry x.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

/// Defaults suit the number type. In float a difference carries three digits at best: check layers
/// with the library `rowgrad_double`.
struct GradientCheckOptions {
  double step = sizeof(real) == 8 ? 1e-5 : 1e-2;       // h, for entries of about 1
  double tolerance = sizeof(real) == 8 ? 1e-7 : 2e-2;  // of |difference| / max(1, |a|, |b|)
  std::uint64_t seed = 0;  // of the tapes' random numbers, the same at each evaluation
};

struct GradientCheckResult {
  bool passed = true;
  std::size_t entries = 0;         // how many were compared
  std::string input;               // the worst entry: "input 0" or a parameter's name …
  std::vector<std::size_t> index;  // … its place there …
  double backward = 0;             // … what backward computed …
  double difference = 0;           // … and what the difference quotient says
  double error = 0;                // |difference| / max(1, |a|, |b|)

  /// One line that says all of it.
  std::string message() const;
};

/// Checks a function of tensors. A result of several numbers is reduced to Σ w · result with fixed
/// weights w, so that every entry matters. Throws std::invalid_argument if there are no inputs.
GradientCheckResult gradient_check(
    const std::function<Variable(std::span<const Variable>)>& function, std::vector<Tensor> inputs,
    const GradientCheckOptions& options = {});

/// Checks a function of parameters: a layer, a whole model. It must give the same result for the
/// same parameters and the same random numbers of the tape. Gradients and values are left as they
/// were.
GradientCheckResult gradient_check(const std::function<Variable(Tape&)>& function,
                                   const std::vector<Parameter*>& parameters,
                                   const GradientCheckOptions& options = {});

}  // namespace rowgrad
