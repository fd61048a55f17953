#pragma once

// Checks backward rules, as torch.autograd.gradcheck does, against central differences
// (f(x + h) − f(x − h)) / 2h for each element x of an input.
//
// A difference has errors of its own: rounding moves f, the more the smaller h is, and f is no
// straight line, the less the larger h is. The check measures both for each element, with smaller
// and smaller steps, and adds what it cannot see to what it sees. So a check that passes says how
// wrong a rule can be at most. In float, that is often not enough to pass, for example in the mean
// of thousands of values: use the library `rowgrad_double` then.

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
  double tolerance = sizeof(real) == 8 ? 1e-7 : 8e-3;  // for error + resolution
  std::uint64_t seed = 0;  // seeds the tapes' random numbers, alike in each evaluation
};

/// What gradient_check() found. Errors are relative to the largest gradient of an element's input,
/// but at least to a thousandth of the largest of all inputs, so that one of 0 can pass.
struct GradientCheckResult {
  bool passed = true;       // whether error + resolution is within the tolerance everywhere
  std::size_t entries = 0;  // the number of elements compared
  std::string input = {};   // where the worst element is: "input 0" or a parameter's name
  std::vector<std::size_t> index = {};  // the index of the worst element in it
  double backward = 0;                  // a: the worst element's gradient from backward
  double difference = 0;                // b: the worst element's difference quotient
  double error = 0;                     // |a − b|, relative
  double resolution = 0;  // how far b may be off, relative: smaller errors are not seen

  /// The result in one line. What has not passed has either "failed" or is "undecided": then
  /// backward and difference quotients agree, but the resolution is too coarse. A gradient of 0
  /// passes if no difference has shown another.
  std::string message() const;
};

/// Checks a function of parameters, such as a layer or a model. It must give the same result for
/// the same parameters and random numbers of the tape. A result with several values is reduced to
/// Σ w · result with fixed weights w, so that every value matters. Values and gradients are as
/// before afterwards. Throws std::invalid_argument for a step or a tolerance that is not
/// above 0, if no parameter is trainable, and for a trainable one on which the result does not
/// depend: most likely the function forgot its layer.
GradientCheckResult gradient_check(const std::function<Variable(Tape&)>& function,
                                   const std::vector<Parameter*>& parameters,
                                   const GradientCheckOptions& options = {});

/// Checks a function of tensors, which are parameters "input 0", "input 1" … on its tape.
GradientCheckResult gradient_check(
    const std::function<Variable(std::span<const Variable>)>& function,
    const std::vector<Tensor>& inputs, const GradientCheckOptions& options = {});

}  // namespace rowgrad
