#include <algorithm>
#include <cmath>
#include <limits>

#include <rowgrad/core/autograd/gradient_check.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {
namespace {

// Σ w · value, recorded as a separate op so that the check does not depend on ops under test.
Variable weighted_sum(const Variable& value) {
  if (value.value().size() == 1) return value;
  Tensor weights = empty(value.shape());
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {  // irregular, so that no two elements cancel
    const auto weight = static_cast<real>(1 + 0.5 * std::sin(1.7 * static_cast<double>(i) + 0.3));
    weights.data()[i] = weight;
    total += static_cast<double>(weight) * value.value().data()[i];
  }
  return record("gradient_check", {value}, scalar(static_cast<real>(total)),
                [weights = std::move(weights)](Backward& node) {
                  Tensor gradient = weights;
                  for (real& entry : gradient.storage()) entry *= *node.gradient().data();
                  node.give(0, std::move(gradient));
                });
}

// Compares one tensor's gradient with difference quotients of the function, which reads `numbers`.
void compare(const std::string& name, const Shape& shape, std::span<real> numbers,
             const Gradient& gradient, const std::function<Variable(Tape&)>& function,
             const GradientCheckOptions& options, GradientCheckResult& result) {
  const auto evaluate_with = [&](real& number, real changed) {
    const struct Restore {
      real& number;
      real kept;
      ~Restore() { number = kept; }
    } restore{number, number};  // even if something throws
    number = changed;
    Random random(options.seed);
    Tape tape(random, Tape::inference);
    return static_cast<double>(weighted_sum(function(tape)).item());
  };
  const Tensor dense = gradient.is_none() ? zeros(shape) : Gradient(gradient).take_dense();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto kept = static_cast<double>(numbers[i]);
    const double step = options.step * std::max(1.0, std::abs(kept));
    const auto above = static_cast<real>(kept + step);
    const auto below = static_cast<real>(kept - step);
    const double after = evaluate_with(numbers[i], above);
    const double before = evaluate_with(numbers[i], below);
    // Divides by the actual step, after rounding, not by the intended one.
    const double quotient =
        (after - before) / (static_cast<double>(above) - static_cast<double>(below));
    const double computed = dense.data()[i];
    const double scale = std::max({1.0, std::abs(quotient), std::abs(computed)});
    double error = std::abs(quotient - computed) / scale;
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    result.passed = result.passed && error <= options.tolerance;
    if (result.entries++ > 0 && error <= result.error) continue;
    const Shape index = index_at(shape, i);
    result.input = name;
    result.index.assign(index.begin(), index.end());
    result.backward = computed;
    result.difference = quotient;
    result.error = error;
  }
}

// To be called if the comparison has passed: then a missing gradient is no mistake of a rule.
void check_used(const std::string& name, const Shape& shape, const Gradient& gradient) {
  check_argument(!gradient.is_none(), "gradient_check: '", name, "' ", bracketed(shape),
                 " gets no gradient: does the function use it?");
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
  std::vector<Variable> variables;
  const auto run = [&](Tape& tape) {
    variables.clear();
    for (const Tensor& input : inputs) variables.push_back(tape.input(input));
    return function(variables);
  };
  Random random(options.seed);
  Tape tape(random);
  tape.backward(weighted_sum(run(tape)));
  const std::vector<Variable> checked = variables;
  GradientCheckResult result;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    compare(concat("input ", i), checked[i].shape(), inputs[i].storage(), tape.gradient(checked[i]),
            run, options, result);
  for (std::size_t i = 0; result.passed && i < inputs.size(); ++i)
    check_used(concat("input ", i), inputs[i].shape(), tape.gradient(checked[i]));
  return result;
}

GradientCheckResult gradient_check(const std::function<Variable(Tape&)>& function,
                                   const std::vector<Parameter*>& parameters,
                                   const GradientCheckOptions& options) {
  check_argument(std::any_of(parameters.begin(), parameters.end(),
                             [](const Parameter* parameter) { return parameter->trainable(); }),
                 "gradient_check: none of ", parameters.size(), " parameters is trainable");
  std::vector<Gradient> kept, gradients;
  for (const Parameter* parameter : parameters) kept.push_back(parameter->gradient());
  const auto restore = [&] {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i]->zero_gradient();
      parameters[i]->add_gradient(std::move(kept[i]));
    }
  };
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

  GradientCheckResult result;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (Parameter& parameter = *parameters[i]; parameter.trainable())
      compare(parameter.name(), parameter.shape(), parameter.mutable_values(), gradients[i],
              function, options, result);
  for (std::size_t i = 0; result.passed && i < parameters.size(); ++i)
    if (parameters[i]->trainable())
      check_used(parameters[i]->name(), parameters[i]->shape(), gradients[i]);
  return result;
}

}  // namespace rowgrad
