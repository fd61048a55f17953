#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <tuple>
#include <utility>

#include <rowgrad/core/autograd/gradient_check.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {
namespace {

constexpr double kEpsilon = std::numeric_limits<real>::epsilon();

struct Checked {
  Parameter* parameter;
  Tensor values;           // original values
  Gradient gradient = {};  // from backward
  double largest = 0;      // largest |gradient| of an element
};

void set_values(const std::vector<Checked>& all, real factor) {
  for (const Checked& checked : all)
    std::transform(checked.values.begin(), checked.values.end(),
                   checked.parameter->mutable_values().begin(),
                   [factor](real value) { return factor * value; });
}

// Estimates the standard deviation of the rounding errors of evaluate() from third differences of
// its results (Moré & Wild 2011, "Estimating computational noise"). From one result to the next,
// each parameter changes by about ten units in the last place. Returns at least the error of the
// last rounding. Restores the values.
double noise_of(const std::vector<Checked>& all, const std::function<double()>& evaluate) {
  std::array<double, 16> results;
  for (std::size_t k = results.size(); k-- > 0;) {
    set_values(all, static_cast<real>(1 + 8 * kEpsilon * static_cast<double>(k)));
    results[k] = evaluate();
  }
  double squares = 0;
  for (std::size_t k = 3; k < results.size(); ++k)
    squares += std::pow(results[k] - results[k - 3] + 3 * (results[k - 2] - results[k - 1]), 2);
  return std::max(std::sqrt(squares / 20 / (results.size() - 3)),
                  kEpsilon / 4 * std::abs(results[0]));
}

// Compares the gradient of one element with Richardson's extrapolation of difference quotients.
// Shrinks the step until both agree or rounding errors are too large. Returns the passing
// comparison or, if none passes, the one with the best resolution. Errors are relative to `largest`
// or the difference quotient, whichever is larger.
GradientCheckResult compare(real& element, double backward, double largest, double noise,
                            const std::function<double()>& evaluate,
                            const GradientCheckOptions& options) {
  constexpr int kSteps = 12;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto kept = static_cast<double>(element);
  GradientCheckResult best{.passed = false, .resolution = kInfinite};
  double step = options.step * std::max(1.0, std::abs(kept));
  double wider = 0;
  for (int i = 0; i < kSteps; ++i, step /= 4) {
    const auto above = static_cast<real>(kept + step);
    const auto below = static_cast<real>(kept - step);
    element = above;
    const double after = evaluate();
    element = below;
    // Divides by the actual step, after rounding.
    const double quotient =
        (after - evaluate()) / (static_cast<double>(above) - static_cast<double>(below));
    const double change = (quotient - std::exchange(wider, quotient)) / 15;  // 4² − 1
    if (i == 0) continue;
    const double rounding = 3 * noise / step;  // about four standard deviations
    GradientCheckResult now{.backward = backward, .difference = quotient + change};
    const double scale = std::max(largest, std::abs(now.difference));
    if (scale > 0 || now.difference != backward) {  // otherwise the error is 0
      now.error = std::abs(now.difference - backward) / scale;
      now.resolution = (std::abs(change) + rounding) / scale;
    }
    now.passed = now.error + now.resolution <= options.tolerance;
    if (std::isnan(now.error)) now.error = kInfinite;
    if (now.passed || !(now.resolution >= best.resolution)) best = now;
    if (now.passed || rounding > options.tolerance * scale) break;
  }
  return best;
}

bool differs(const GradientCheckResult& entry) { return !(entry.error <= entry.resolution); }

// Orders results: failed is worse than undecided, which is worse than passed; then by error.
auto badness(const GradientCheckResult& entry) {
  return std::tuple(!entry.passed, !entry.passed && differs(entry), entry.error);
}

}  // namespace

std::string GradientCheckResult::message() const {
  if (entries == 0) return "passed, but there were no elements to compare";
  const bool undecided = !passed && !differs(*this);
  return concat(passed      ? "passed"
                : undecided ? "undecided"
                            : "failed",
                ", ", entries, " elements compared; the worst is ", input, " at ", bracketed(index),
                ": backward ", backward, ", difference quotient ", difference, ", relative error ",
                error, ", resolution ", resolution,
                undecided && sizeof(real) == 4 ? "; link rowgrad_double for a finer one" : "");
}

GradientCheckResult gradient_check(const std::function<Variable(Tape&)>& function,
                                   const std::vector<Parameter*>& parameters,
                                   const GradientCheckOptions& options) {
  std::vector<Checked> all;
  for (Parameter* parameter : parameters)
    if (parameter->trainable()) all.push_back({parameter, parameter->copy()});
  check_argument(!all.empty(), "gradient_check: 0 of ", parameters.size(),
                 " parameters are trainable, expected at least one");
  check_argument(std::isfinite(options.step) && options.step > 0 && options.tolerance > 0,
                 "gradient_check: step is ", options.step, " and tolerance ", options.tolerance,
                 ", expected values above 0");

  Random random(options.seed);
  Tape tape(random);
  const Variable result = function(tape);
  Tensor weights = full(result.shape(), 1);
  for (std::size_t i = 0; weights.size() > 1 && i < weights.size(); ++i)  // avoids cancellation
    weights.data()[i] = static_cast<real>(1 + 0.5 * std::sin(1.7 * static_cast<double>(i) + 0.3));
  double largest = 0;
  const auto keep = [&](const Parameter& parameter, const Gradient& gradient) {
    for (Checked& checked : all)
      if (checked.parameter == &parameter) checked.gradient = gradient;
  };
  tape.backward(result, weights, {.sink = keep});
  for (Checked& checked : all) {
    for (const real entry : std::as_const(checked.gradient).values())
      checked.largest = std::max(checked.largest, std::abs(static_cast<double>(entry)));
    largest = std::max(largest, checked.largest);
  }
  const auto evaluate = [&] {
    Random again(options.seed);
    Tape inference(again, Tape::kInference);
    const Variable value = function(inference);
    check_argument(value.shape() == weights.shape(), "gradient_check: the function returned shape ",
                   bracketed(value.shape()), ", expected ", bracketed(weights.shape()),
                   " as in the first call");
    double total = 0;
    for (std::size_t i = 0; i < weights.size(); ++i)
      total += static_cast<double>(weights.data()[i]) * value.value().data()[i];
    return total;
  };

  const struct Restore {
    const std::vector<Checked>& all;
    ~Restore() { set_values(all, 1); }
  } restore{all};  // restores the values even if the function throws
  const double noise = noise_of(all, evaluate);
  GradientCheckResult worst;
  std::size_t entries = 0;
  for (Checked& checked : all) {
    const std::string& name = checked.parameter->name();
    const Shape& shape = checked.values.shape();
    bool seen = !checked.gradient.is_none();
    const Tensor gradient = seen ? std::move(checked.gradient).take_dense() : zeros(shape);
    const std::span<real> elements = checked.parameter->mutable_values();
    for (std::size_t i = 0; i < elements.size(); ++i) {
      GradientCheckResult entry =
          compare(elements[i], gradient.data()[i], std::max(checked.largest, 1e-3 * largest), noise,
                  evaluate, options);
      elements[i] = checked.values.data()[i];
      seen = seen || differs(entry);
      if (entries++ > 0 && badness(entry) <= badness(worst)) continue;
      const Shape index = index_at(shape, i);
      entry.input = name;
      entry.index.assign(index.begin(), index.end());
      worst = entry;
    }
    // If a difference quotient is not 0, the function uses the parameter, and a rule is wrong.
    check_argument(seen || elements.empty(), "gradient_check: '", name, "' ", bracketed(shape),
                   " gets no gradient: does the function use it?");
  }
  worst.entries = entries;
  return worst;
}

GradientCheckResult gradient_check(
    const std::function<Variable(std::span<const Variable>)>& function,
    const std::vector<Tensor>& inputs, const GradientCheckOptions& options) {
  check_argument(!inputs.empty(), "gradient_check: no inputs were given, expected at least one");
  std::deque<Parameter> held;
  std::vector<Parameter*> parameters;
  for (const Tensor& input : inputs)
    parameters.push_back(&held.emplace_back(concat("input ", held.size()), input));
  return gradient_check(
      [&](Tape& tape) {
        std::vector<Variable> variables;
        for (Parameter* parameter : parameters) variables.push_back(tape.parameter(*parameter));
        return function(variables);
      },
      parameters, options);
}

}  // namespace rowgrad
