#pragma once

#include <cmath>

#include <rowgrad/optim/rule_optimizer.hpp>

namespace rowgrad {

struct RmsPropOptions {
  double learning_rate = 1e-2;
  double alpha = 0.99;      // decay factor of the running mean of squares
  double epsilon = 1e-8;    // added to the square root
  double weight_decay = 0;  // weight_decay · w is added to the gradient
  double momentum = 0;      // applied to the quotients q below
  bool centered = false;    // divide by the standard deviation of the gradients (Graves 2013)
  bool maximize = false;    // ascend the gradient
  RowUpdates rows = RowUpdates::kExact;
};

struct RmsPropRule : RuleDefaults {
  using Options = RmsPropOptions;
  static constexpr std::string_view kName = "RMSprop";
  static constexpr std::array<std::string_view, 3> kStates{"square_avg", "momentum", "grad_avg"};

  real rate, alpha, enter, epsilon, decay, momentum, sign;
  real centered;  // 1 or 0
  static auto members(const RmsPropRule& r) {
    return std::tie(r.rate, r.alpha, r.enter, r.epsilon, r.decay, r.momentum, r.sign, r.centered);
  }

  RmsPropRule(const RmsPropOptions& options, const StepNumber& number);

  static void check(const RmsPropOptions& options);
  static std::array<bool, 3> uses(const RmsPropOptions& options) {
    return {true, options.momentum != 0, options.centered};
  }

  template <class Number>
  void update(Number& w, const Number& g, std::array<Number, 3>& state) const {
    using std::max;
    using std::sqrt;
    auto& [square, velocity, mean] = state;
    Number d = Number(sign) * g;
    if (decay != 0) d = d + Number(decay) * w;
    square = Number(alpha) * square + Number(enter) * d * d;
    Number spread = square;
    if (centered != 0) {
      mean = Number(alpha) * mean + Number(enter) * d;
      spread = max(square - mean * mean, Number(0));  // rounding may make it negative
    }
    const Number quotient = d / (sqrt(spread) + Number(epsilon));
    if (momentum != 0) {
      velocity = Number(momentum) * velocity + quotient;
      w = w - Number(rate) * velocity;
    } else {
      w = w - Number(rate) * quotient;
    }
  }

  Idle idle() const { return decay == 0 && epsilon > 0 ? Idle::kLinear : Idle::kReplay; }
};

/// RMSprop (Tieleman & Hinton 2012, lecture 6.5), the update of torch.optim.RMSprop:
///
///   d = ±gradient + weight_decay · w
///   s = alpha · s + (1 − alpha) · d²,  with centered: a = alpha · a + (1 − alpha) · d, s' = s − a²
///   q = d / (√s + epsilon), with centered √s' instead
///   w = w − learning_rate · (q, or v = momentum · v + q)
///
/// With row gradients, the steps that a row missed have a closed form; with weight_decay they have
/// none, and each of them is replayed when the row is read.
using RMSprop = RuleOptimizer<RmsPropRule>;

extern template class RuleOptimizer<RmsPropRule>;

}  // namespace rowgrad
