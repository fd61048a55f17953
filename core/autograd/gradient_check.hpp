#pragma once

// Checks backward rules against central differences: (f(x + h) − f(x − h)) / 2h for each element x.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

/// The defaults suit the library's number type. In float, a difference has at best three correct
/// digits: check layers with the library `rowgrad_double`.
struct GradientCheckOptions {
  double step = sizeof(real) == 8 ? 1e-5 : 1e-2;       // h / max(1, |x|)
  double tolerance = sizeof(real) == 8 ? 1e-7 : 2e-2;  // for |a − b| / max(1, |a|, |b|)
  std::uint64_t seed = 0;  // seeds the tapes' random numbers, alike in each evaluation
};

/// What gradient_check() found.
struct GradientCheckResult {
  bool passed = true;              // whether it is within the tolerance
  std::size_t entries = 0;         // the number of elements compared
  std::string input;               // where the worst element is: "input 0" or a parameter's name
  std::vector<std::size_t> index;  // the index of the worst element in it
  double backward = 0;             // a: the worst element's gradient from backward
  double difference = 0;           // b: the worst element's difference quotient
  double error = 0;                // |a − b| / max(1, |a|, |b|)

  /// The result in one line.
  std::string message() const;
};

/// Checks a function of tensors. A result with several values is reduced to Σ w · result with fixed
/// weights w, so that every value matters. Throws std::invalid_argument if there are no inputs, and
/// for one on which the result does not depend.
GradientCheckResult gradient_check(
    const std::function<Variable(std::span<const Variable>)>& function, std::vector<Tensor> inputs,
    const GradientCheckOptions& options = {});

/// Checks a function of parameters, such as a layer or a model. It must give the same result for
/// the same parameters and random numbers of the tape. Gradients and values are restored
/// afterwards. Throws std::invalid_argument if no parameter is trainable, and for a trainable one
/// on which the result does not depend: most likely the function forgot its layer.
GradientCheckResult gradient_check(const std::function<Variable(Tape&)>& function,
                                   const std::vector<Parameter*>& parameters,
                                   const GradientCheckOptions& options = {});

}  // namespace rowgrad
