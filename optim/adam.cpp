#include <rowgrad/optim/adam.hpp>

namespace rowgrad {
namespace {

AdamOptions as_adam(const AdamWOptions& options) {
  return {.learning_rate = options.learning_rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay,
          .amsgrad = options.amsgrad,
          .maximize = options.maximize,
          .rows = options.rows};
}

void check_options(std::string_view name, const AdamOptions& options) {
  check_option(name, "learning_rate", options.learning_rate);
  check_option(name, "beta1", options.beta1, {.below = 1});
  check_option(name, "beta2", options.beta2, {.below = 1});
  check_option(name, "epsilon", options.epsilon);
  check_option(name, "weight_decay", options.weight_decay);
}

// The sum of a geometric series: without a gradient, each step is smaller than the one before by a
// ratio below 1, and the first is at most 1 / (1 − beta1) times the quotient of the means if the
// learning rate is at most 1. Returns 0 if that does not hold, or if decay shrinks w nearly as fast
// as the steps, so that they would matter again.
double fading_sum(const AdamOptions& options, bool decay_in_gradient) {
  const double ratio = options.beta1 / std::sqrt(options.beta2);
  const double keep = decay_in_gradient ? 1 : 1 - options.learning_rate * options.weight_decay;
  if (!(ratio < 1) || keep < (1 + 3 * ratio) / 4 || options.learning_rate > 1 ||
      static_cast<real>(options.epsilon) == 0 || (decay_in_gradient && options.weight_decay != 0))
    return 0;
  return 1 / ((1 - options.beta1) * (1 - ratio));
}

}  // namespace

AdamSteps::AdamSteps(const AdamOptions& options, std::uint64_t step, bool decay_in_gradient)
    : beta1(static_cast<real>(options.beta1)),
      enter1(static_cast<real>(1 - options.beta1)),
      beta2(static_cast<real>(options.beta2)),
      enter2(static_cast<real>(1 - options.beta2)),
      step_size(static_cast<real>(options.learning_rate /
                                  (1 - std::pow(options.beta1, static_cast<double>(step))))),
      inverse_correction(
          static_cast<real>(1 / std::sqrt(1 - std::pow(options.beta2, static_cast<double>(step))))),
      epsilon(static_cast<real>(options.epsilon)),
      sign(options.maximize ? -1 : 1),
      decay(static_cast<real>(decay_in_gradient ? options.weight_decay : 0)),
      keep(static_cast<real>(decay_in_gradient ? 1
                                               : 1 - options.learning_rate * options.weight_decay)),
      amsgrad(options.amsgrad ? 1 : 0),
      fading(static_cast<real>(fading_sum(options, decay_in_gradient))) {}

void AdamRule::check(const AdamOptions& options) { check_options(kName, options); }

AdamWRule::AdamWRule(const AdamWOptions& options, const StepNumber& number)
    : AdamSteps(as_adam(options), number.step, false) {}

void AdamWRule::check(const AdamWOptions& options) { check_options(kName, as_adam(options)); }

template class LazyTable<AdamRule>;
template class ParameterUpdates<AdamRule>;
template class RuleOptimizer<AdamRule>;
template class LazyTable<AdamWRule>;
template class ParameterUpdates<AdamWRule>;
template class RuleOptimizer<AdamWRule>;

}  // namespace rowgrad
