#pragma once

#include <cmath>

#include <rowgrad/optim/rule_optimizer.hpp>

namespace rowgrad {

struct SgdOptions {
  double learning_rate = 1e-3;           // 0 or more
  double momentum = 0;                   // 0 is plain SGD
  double dampening = 0;                  // (1 − dampening) · gradient is added to the momentum
  bool nesterov = false;                 // requires momentum without dampening
  double weight_decay = 0;               // weight_decay · w is added to the gradient
  bool maximize = false;                 // ascend the gradient; decay still shrinks the weights
  RowUpdates rows = RowUpdates::kExact;  // see RowUpdates
};

struct SgdRule : RuleDefaults {  // the update rule of SGD
  using Options = SgdOptions;
  static constexpr std::string_view kName = "SGD";
  static constexpr std::array<std::string_view, 1> kSlots{"momentum"};

  real rate, momentum, enter, decay, sign;
  real ahead;  // 1 with nesterov, else 0
  static auto members(const SgdRule& r) {
    return std::tie(r.rate, r.momentum, r.enter, r.decay, r.sign, r.ahead);
  }

  SgdRule(const SgdOptions& options, const StepNumber& number);

  static void check(const SgdOptions& options);
  static std::array<bool, 1> uses(const SgdOptions& options) { return {options.momentum != 0}; }

  template <class Number>
  void update(Number& w, const Number& g, std::array<Number, 1>& state) const {
    using std::fma;  // fixes which product is rounded
    Number d = Number(sign) * g;
    if (decay != 0) d = fma(Number(decay), w, d);
    if (momentum != 0) {
      Number& v = state[0];
      v = fma(Number(enter), d, Number(momentum) * v);
      d = ahead != 0 ? fma(Number(momentum), v, d) : v;
    }
    w = fma(Number(-rate), d, w);
  }

  Deferral deferral() const {
    return momentum == 0 && decay == 0 ? Deferral::kNothing : Deferral::kLinear;
  }
};

/// Stochastic gradient descent, the update of torch.optim.SGD (Sutskever et al. 2013 for momentum):
///
///   d = ±gradient + weight_decay · w
///   v = d in the first step, then momentum · v + (1 − dampening) · d
///   w = w − learning_rate · (d + momentum · v with nesterov, v with momentum, d without)
///
/// With row gradients, plain SGD equals the dense step bit for bit and defers nothing. With
/// momentum or decay, any number of deferred steps of a row combine into one 2 × 2 matrix.
using SGD = RuleOptimizer<SgdRule>;

extern template class RuleOptimizer<SgdRule>;

}  // namespace rowgrad
