#pragma once

#include <cmath>

#include <rowgrad/optim/rule_optimizer.hpp>

namespace rowgrad {

struct AdagradOptions {
  double learning_rate = 1e-2;
  double learning_rate_decay = 0;  // decay per step, see below
  double weight_decay = 0;         // weight_decay · w is added to the gradient
  double initial_accumulator = 0;  // initial value of the sum of squares
  double epsilon = 1e-10;          // added to the square root
  bool maximize = false;           // ascend the gradient
  RowUpdates rows = RowUpdates::kExact;
};

struct AdagradRule : RuleDefaults {
  using Options = AdagradOptions;
  static constexpr std::string_view kName = "Adagrad";
  static constexpr std::array<std::string_view, 1> kStates{"sum"};

  real rate, decay, epsilon, sign;
  static auto members(const AdagradRule& r) { return std::tie(r.rate, r.decay, r.epsilon, r.sign); }

  AdagradRule(const AdagradOptions& options, const StepNumber& number);

  static void check(const AdagradOptions& options);
  static std::array<bool, 1> uses(const AdagradOptions&) { return {true}; }
  static double start(const AdagradOptions& options, std::size_t) {
    return options.initial_accumulator;
  }

  template <class Number>
  void update(Number& w, const Number& g, std::array<Number, 1>& state) const {
    using std::sqrt;
    Number d = Number(sign) * g;
    if (decay != 0) d = d + Number(decay) * w;
    state[0] = state[0] + d * d;
    w = w - Number(rate) * d / (sqrt(state[0]) + Number(epsilon));
  }

  Idle idle() const { return decay == 0 && epsilon > 0 ? Idle::kNothing : Idle::kReplay; }
};

/// Adagrad (Duchi et al. 2011, figure 1, diagonal), the update of torch.optim.Adagrad at step t:
///
///   d = ±gradient + weight_decay · w,  s = s + d²
///   w = w − learning_rate / (1 + (t − 1) · learning_rate_decay) · d / (√s + epsilon)
///
/// With row gradients, rows that were not looked up do not change, unless weight_decay is set: then
/// every step that a row missed is replayed when the row is read.
using Adagrad = RuleOptimizer<AdagradRule>;

extern template class RuleOptimizer<AdagradRule>;

}  // namespace rowgrad
