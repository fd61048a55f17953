#include <rowgrad/optim/rmsprop.hpp>

namespace rowgrad {

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

}  // namespace rowgrad
