#pragma once

// Checks the backward rule of an op in one call.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/checkpoints.hpp"
#include "tests/support/tensors.hpp"
#include <rowgrad/core/autograd/gradient_check.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad::testing {

using Inputs = std::span<const Variable>;
using Function = std::function<Variable(Inputs)>;

/// Returns a scalar that depends on every element of x, each with its own weight.
inline Variable weighted_sum(const Variable& x) {
  Tensor weights = irregular(x.shape(), 5, 0.5, 1.5);
  double total = 0;
  for (std::size_t k = 0; k < weights.size(); ++k)
    total += static_cast<double>(weights.data()[k]) * x.read().data()[k];
  return record("weighted_sum", {x}, scalar(static_cast<real>(total)),
                [weights](Backward& node) { node.slot(0).take(weights); });
}

inline std::vector<Variable> inputs_on(Tape& tape, const std::vector<Tensor>& values) {
  std::vector<Variable> inputs;
  for (const Tensor& value : values) inputs.push_back(tape.input(value));
  return inputs;
}

/// Returns the gradients of weighted_sum(function(inputs)) for the inputs i with a true wanted[i].
inline std::vector<Gradient> gradients_of(const Function& function,
                                          const std::vector<Tensor>& inputs,
                                          const std::vector<bool>& wanted) {
  Random random(0);
  Tape tape(random);
  std::vector<Variable> variables;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    variables.push_back(wanted[i] ? tape.input(inputs[i]) : tape.constant(inputs[i]));
  tape.backward(weighted_sum(function(variables)));
  std::vector<Gradient> gradients(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (wanted[i]) gradients[i] = tape.gradient(variables[i]);
  return gradients;
}

inline std::vector<Gradient> gradients_of(const Function& function,
                                          const std::vector<Tensor>& inputs) {
  return gradients_of(function, inputs, std::vector<bool>(inputs.size(), true));
}

/// Expects backward() to agree with difference quotients for every element of every input. Expects
/// an input's gradient to have the same bits whether or not other inputs need gradients.
inline void expect_gradients(const Function& function, const std::vector<Tensor>& inputs,
                             const std::string& what = "") {
  std::size_t entries = 0;
  for (const Tensor& input : inputs) entries += input.size();
  const GradientCheckResult result = gradient_check(function, inputs);
  EXPECT_TRUE(result.passed) << what << ": " << result.message();
  EXPECT_EQ(result.entries, entries) << what;

  const std::vector<Gradient> together = gradients_of(function, inputs);
  for (std::size_t i = 0; inputs.size() > 1 && i < inputs.size(); ++i) {
    std::vector<bool> wanted(inputs.size(), false);
    wanted[i] = true;
    Gradient alone = gradients_of(function, inputs, wanted)[i];
    EXPECT_TRUE(bits_of(std::move(alone).take_dense()) ==
                bits_of(Gradient(together[i]).take_dense()))
        << what << ": input " << i << " alone";
  }
}

}  // namespace rowgrad::testing
