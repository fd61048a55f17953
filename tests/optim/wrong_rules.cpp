// Does not compile, and must say why in words: a rule whose members are not all in members().

#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {

struct WrongRule : SgdRule {
  using SgdRule::SgdRule;
  real not_listed = 0;
};

void make(Parameter& parameter) { RuleOptimizer<WrongRule> optimizer({&parameter}); }

}  // namespace rowgrad
