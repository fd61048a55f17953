#pragma once

// Checks backward rules, like torch.autograd.gradcheck, against central differences
// (f(x + h) − f(x − h)) / 2h for each element x of an input.
//
// Difference quotients are inexact: rounding error grows as h shrinks, truncation error as h grows.
// The check estimates both errors for each element with ever smaller steps, and adds both to the
// error that it measures. So the tolerance bounds the true error of a rule that passes. Float
// precision is often too coarse, for example for the mean of thousands of values. Then link the
// library `rowgrad_double`.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

struct GradientCheckOptions {
  double step = sizeof(real) == 8 ? 4e-4 : 0.4;        // the largest h / max(1, |x|)
  double tolerance = sizeof(real) == 8 ? 1e-7 : 8e-3;  // limit of error + resolution
  std::uint64_t seed = 0;                              // seed of each evaluation's random numbers
};

/// The result of gradient_check(). Errors are relative to the largest of three values: the
/// difference quotient, the largest gradient of the same input, and 1/1000 of the largest gradient
/// of all inputs.
struct GradientCheckResult {
  bool passed = true;       // true if error + resolution ≤ tolerance for every element
  std::size_t entries = 0;  // number of elements compared
  std::string input = {};   // input with the worst element: "input 0" or a parameter's name
  std::vector<std::size_t> index = {};  // index of the worst element
  double backward = 0;                  // a: the element's gradient from backward
  double difference = 0;                // b: the element's difference quotient
  double error = 0;                     // |a − b|, relative
  double resolution = 0;                // estimated error of b, relative

  /// Describes the result in one line. A check that did not pass "failed" or is "undecided".
  /// Undecided: backward and the difference quotient agree, but the resolution is too coarse. If
  /// all gradients are 0, an element passes only if its difference quotient is 0.
  std::string message() const;
};

/// Checks a function of parameters, such as a layer or a model. The function must be deterministic,
/// given the parameters and the random numbers of the tape. A result with several elements is
/// reduced to Σ w · result with fixed weights w. Restores all values and leaves gradients alone.
/// Throws std::invalid_argument if the step or the tolerance is not above 0, if no parameter is
/// trainable, or if the function leaves a trainable parameter unused.
GradientCheckResult gradient_check(const std::function<Variable(Tape&)>& function,
                                   const std::vector<Parameter*>& parameters,
                                   const GradientCheckOptions& options = {});

/// Checks a function of tensors, which become parameters "input 0", "input 1" … on the tape.
GradientCheckResult gradient_check(
    const std::function<Variable(std::span<const Variable>)>& function,
    const std::vector<Tensor>& inputs, const GradientCheckOptions& options = {});

}  // namespace rowgrad
