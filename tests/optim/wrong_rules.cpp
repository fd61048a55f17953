// Does not compile, and must say why in words: rules whose members are not all `real`, or not all
// in members().

#include <rowgrad/optim/rule_optimizer.hpp>

namespace rowgrad {

template <class Member>
struct WrongRule : RuleDefaults {
  struct Options {
    double learning_rate = 1;
    RowUpdates rows = RowUpdates::kExact;
  };
  static constexpr std::string_view kName = "Wrong";

  Member rate = 1;
  real other = 1;
  static auto members(const WrongRule& rule) {
    if constexpr (std::is_same_v<Member, real>) {
      return std::tie(rule.rate);
    } else {
      return std::tie(rule.rate, rule.other);
    }
  }

  WrongRule(const Options&, const StepNumber&) {}
  template <class Number>
  void update(Number& w, const Number& gradient, std::array<Number, 0>&) const {
    w = w - gradient;
  }
};

void make(Parameter& parameter) {
  RuleOptimizer<WrongRule<int>> with_an_integer({&parameter});
  RuleOptimizer<WrongRule<real>> not_listed({&parameter});
}

}  // namespace rowgrad
