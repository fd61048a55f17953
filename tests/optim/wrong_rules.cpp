// Must fail to compile with a readable message: members() does not list all members of the rule.

#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {

struct WrongRule : SgdRule {
  using SgdRule::SgdRule;
  real not_listed = 0;
};

void make(Parameter& parameter) { RuleOptimizer<WrongRule> optimizer({&parameter}); }

}  // namespace rowgrad
