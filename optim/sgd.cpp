#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {

SgdRule::SgdRule(const SgdOptions& options, const StepNumber& number)
    : rate(static_cast<real>(options.learning_rate)),
      momentum(static_cast<real>(options.momentum)),
      enter(static_cast<real>(number.is_first_use ? 1 : 1 - options.dampening)),
      decay(static_cast<real>(options.weight_decay)),
      sign(options.maximize ? -1 : 1),
      ahead(options.nesterov ? 1 : 0) {}

void SgdRule::check(const SgdOptions& options) {
  check_option(kName, "learning_rate", options.learning_rate);
  check_option(kName, "momentum", options.momentum);
  check_option(kName, "dampening", options.dampening, {.least = -kUnbounded});
  check_option(kName, "weight_decay", options.weight_decay);
  check_argument(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
                 "SGD: nesterov is set with momentum ", options.momentum, " and dampening ",
                 options.dampening, ", expected momentum > 0 and dampening 0");
}

template class RuleOptimizer<SgdRule>;

}  // namespace rowgrad
