#include <algorithm>
#include <cmath>
#include <limits>

#include <rowgrad/core/autograd/gradient_check.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {
namespace {

// Irregular weights around 1, so that no two elements of a result can cancel.
Tensor weights_for(const Shape& shape) {
  Tensor weights = empty(shape);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights.data()[i] = static_cast<real>(1 + 0.5 * std::sin(1.7 * static_cast<double>(i) + 0.3));
  return weights;
}

// Σ w · value, recorded as a separate op so that the check does not depend on ops under test.
Variable weighted_sum(const Variable& value) {
  if (value.value().size() == 1) return value;
  Tensor weights = weights_for(value.shape());
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    total += static_cast<double>(weights.data()[i]) * value.value().data()[i];
  return record("gradient_check", {value}, scalar(static_cast<real>(total)),
                [weights = std::move(weights)](Backward& node) {
                  Tensor gradient = weights;
                  for (real& entry : gradient.storage()) entry *= *node.gradient().data();
                  node.give(0, std::move(gradient));
                });
}

// Evaluates with `number` set to `changed`, then restores it, even if `evaluate` throws.
double evaluate_with(real& number, real changed, const std::function<double()>& evaluate) {
  const struct Restore {
    real& number;
    real kept;
    ~Restore() { number = kept; }
  } restore{number, number};
  number = changed;
  return evaluate();
}

// Compares one tensor's gradient with difference quotients of `evaluate`, which reads `numbers`.
void compare(const std::string& name, const Shape& shape, std::span<real> numbers,
             const Tensor& gradient, const std::function<double()>& evaluate,
             const GradientCheckOptions& options, GradientCheckResult& result) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const real kept = numbers[i];
    const double step = options.step * std::max(1.0, std::abs(static_cast<double>(kept)));
    const auto above = static_cast<real>(kept + step);
    const auto below = static_cast<real>(kept - step);
    const double after = evaluate_with(numbers[i], above, evaluate);
    const double before = evaluate_with(numbers[i], below, evaluate);
    // Divides by the actual step, after rounding, not by the intended one.
    const double quotient =
        (after - before) / (static_cast<double>(above) - static_cast<double>(below));
    const double computed = gradient.data()[i];
    const double scale = std::max({1.0, std::abs(quotient), std::abs(computed)});
    double error = std::abs(quotient - computed) / scale;
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    result.passed = result.passed && error <= options.tolerance;
    if (result.entries++ == 0 || error > result.error) {
      result.input = name;
      const Shape index = index_at(shape, i);
      result.index.assign(index.begin(), index.end());
      result.backward = computed;
      result.difference = quotient;
      result.error = error;
    }
  }
}

Tensor dense_or_zeros(const Gradient& gradient, const Shape& shape) {
  return gradient.is_none() ? zeros(shape) : Gradient(gradient).take_dense();
}

}  // namespace

std::string GradientCheckResult::message() const {
  if (entries == 0) return "passed, but there were no entries to compare";
  return concat(passed ? "passed" : "failed", ", ", entries, " entries; the worst is ", input,
                " at ", bracketed(index), ": backward ", backward, ", difference quotient ",
                difference, ", relative error ", error);
}

GradientCheckResult gradient_check(
    const std::function<Variable(std::span<const Variable>)>& function, std::vector<Tensor> inputs,
    const GradientCheckOptions& options) {
  check_argument(!inputs.empty(), "gradient_check: there are no inputs");
  auto run = [&](Tape& tape, std::vector<Variable>& variables) {
    for (const Tensor& input : inputs) variables.push_back(tape.input(input));
    return weighted_sum(function(variables));
  };
  Random random(options.seed);
  Tape tape(random);
  std::vector<Variable> variables;
  tape.backward(run(tape, variables));

  auto evaluate = [&] {
    Random again(options.seed);
    Tape forward(again, Tape::inference);
    std::vector<Variable> values;
    return static_cast<double>(run(forward, values).item());
  };
  GradientCheckResult result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape shape = inputs[i].shape();
    compare(concat("input ", i), shape, std::span(inputs[i].data(), inputs[i].size()),
            dense_or_zeros(tape.gradient(variables[i]), shape), evaluate, options, result);
  }
  return result;
}

GradientCheckResult gradient_check(const std::function<Variable(Tape&)>& function,
                                   const std::vector<Parameter*>& parameters,
                                   const GradientCheckOptions& options) {
  check_argument(std::any_of(parameters.begin(), parameters.end(),
                             [](const Parameter* parameter) { return parameter->trainable(); }),
                 "gradient_check: none of ", parameters.size(), " parameters is trainable");
  std::vector<Gradient> kept;
  for (const Parameter* parameter : parameters) kept.push_back(parameter->gradient());
  auto restore = [&] {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i]->zero_gradient();
      parameters[i]->add_gradient(std::move(kept[i]));
    }
  };
  std::vector<Gradient> gradients;
  try {
    for (Parameter* parameter : parameters) parameter->zero_gradient();
    Random random(options.seed);
    Tape tape(random);
    tape.backward(weighted_sum(function(tape)));
    for (const Parameter* parameter : parameters) gradients.push_back(parameter->gradient());
  } catch (...) {
    restore();
    throw;
  }
  restore();

  auto evaluate = [&] {
    Random random(options.seed);
    Tape tape(random, Tape::inference);
    return static_cast<double>(weighted_sum(function(tape)).item());
  };
  GradientCheckResult result;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i]->trainable()) continue;
    compare(parameters[i]->name(), parameters[i]->shape(), parameters[i]->mutable_values(),
            dense_or_zeros(gradients[i], parameters[i]->shape()), evaluate, options, result);
  }
  return result;
}

}  // namespace rowgrad
