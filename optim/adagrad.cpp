#include <rowgrad/optim/adagrad.hpp>

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

}  // namespace rowgrad
