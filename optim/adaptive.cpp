#include <rowgrad/optim/adaptive.hpp>

namespace rowgrad {

AdagradRule::AdagradRule(const AdagradOptions& options, const StepNumber& number)
    : rate(static_cast<real>(options.learning_rate / (1 + static_cast<double>(number.step - 1) *
                                                              options.learning_rate_decay))),
      decay(static_cast<real>(options.weight_decay)),
      epsilon(static_cast<real>(options.epsilon)),
      sign(options.maximize ? -1 : 1) {}

void AdagradRule::check(const AdagradOptions& options) {
  check_option(kName, "learning_rate", options.learning_rate);
  check_option(kName, "learning_rate_decay", options.learning_rate_decay);
  check_option(kName, "weight_decay", options.weight_decay);
  check_option(kName, "initial_accumulator", options.initial_accumulator);
  check_option(kName, "epsilon", options.epsilon);
}

template class RuleOptimizer<AdagradRule>;

RmsPropRule::RmsPropRule(const RmsPropOptions& options, const StepNumber&)
    : rate(static_cast<real>(options.learning_rate)),
      alpha(static_cast<real>(options.alpha)),
      enter(static_cast<real>(1 - options.alpha)),
      epsilon(static_cast<real>(options.epsilon)),
      decay(static_cast<real>(options.weight_decay)),
      momentum(static_cast<real>(options.momentum)),
      sign(options.maximize ? -1 : 1),
      centered(options.centered ? 1 : 0) {}

void RmsPropRule::check(const RmsPropOptions& options) {
  check_option(kName, "learning_rate", options.learning_rate);
  check_option(kName, "alpha", options.alpha);
  check_option(kName, "epsilon", options.epsilon);
  check_option(kName, "weight_decay", options.weight_decay);
  check_option(kName, "momentum", options.momentum);
}

template class RuleOptimizer<RmsPropRule>;

template <bool kDecoupled>
AdamRuleOf<kDecoupled>::AdamRuleOf(const Options& options, const StepNumber& number)
    : beta1(static_cast<real>(options.beta1)),
      enter1(static_cast<real>(1 - options.beta1)),
      // Turns -0 into 0, because beta1 is divided by the root of beta2.
      beta2(std::abs(static_cast<real>(options.beta2))),
      enter2(static_cast<real>(1 - options.beta2)),
      step_size(static_cast<real>(options.learning_rate /
                                  (1 - std::pow(options.beta1, static_cast<double>(number.step))))),
      inverse_correction(static_cast<real>(
          1 / std::sqrt(1 - std::pow(options.beta2, static_cast<double>(number.step))))),
      epsilon(static_cast<real>(options.epsilon)),
      sign(options.maximize ? -1 : 1),
      decay(static_cast<real>(kDecoupled ? 0 : options.weight_decay)),
      decay_factor(
          static_cast<real>(kDecoupled ? 1 - options.learning_rate * options.weight_decay : 1)),
      amsgrad(options.amsgrad ? 1 : 0) {}

template <bool kDecoupled>
void AdamRuleOf<kDecoupled>::check(const Options& options) {
  check_option(kName, "learning_rate", options.learning_rate);
  check_option(kName, "beta1", options.beta1, {.below = 1});
  check_option(kName, "beta2", options.beta2, {.below = 1});
  check_option(kName, "epsilon", options.epsilon);
  check_option(kName, "weight_decay", options.weight_decay);
}

template struct AdamRuleOf<false>;
template struct AdamRuleOf<true>;
template class RuleOptimizer<AdamRule>;
template class RuleOptimizer<AdamWRule>;

}  // namespace rowgrad
