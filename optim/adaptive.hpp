#pragma once

// Adaptive optimizers: Adagrad, RMSprop, Adam and AdamW.

#include <cmath>
#include <limits>

#include <rowgrad/optim/deferred_adam_steps.hpp>
#include <rowgrad/optim/rule_optimizer.hpp>

namespace rowgrad {

// --- Adagrad ------------------------------------------------------------------------------------

struct AdagradOptions {
  double learning_rate = 1e-2;           // 0 or more
  double learning_rate_decay = 0;        // see Adagrad
  double weight_decay = 0;               // weight_decay · w is added to the gradient
  double initial_accumulator = 0;        // initial sum of squares
  double epsilon = 1e-10;                // added to the square root
  bool maximize = false;                 // ascend the gradient
  RowUpdates rows = RowUpdates::kExact;  // see RowUpdates
};

/// Update rule of Adagrad.
struct AdagradRule : RuleDefaults {
  using Options = AdagradOptions;
  static constexpr std::string_view kName = "Adagrad";
  static constexpr std::array<std::string_view, 1> kSlots{"sum"};

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
    using std::fma;  // see SgdRule
    using std::sqrt;
    Number d = Number(sign) * g;
    if (decay != 0) d = fma(Number(decay), w, d);
    state[0] = fma(d, d, state[0]);
    w = w - Number(rate) * d / (sqrt(state[0]) + Number(epsilon));
  }

  Deferral deferral() const {
    return decay == 0 && epsilon > 0 ? Deferral::kNothing : Deferral::kReplay;
  }
};

/// Adagrad (Duchi et al. 2011, figure 1, diagonal), the update of torch.optim.Adagrad in step t:
///
///   d = ±gradient + weight_decay · w,  s = s + d²
///   w = w − learning_rate / (1 + (t − 1) · learning_rate_decay) · d / (√s + epsilon)
///
/// With row gradients, rows that were not looked up change only if weight_decay > 0 or epsilon = 0.
/// If so, deferred steps are replayed when a row is read.
using Adagrad = RuleOptimizer<AdagradRule>;

extern template class RuleOptimizer<AdagradRule>;

// --- RMSprop ------------------------------------------------------------------------------------

struct RmsPropOptions {
  double learning_rate = 1e-2;  // 0 or more
  double alpha = 0.99;          // decay factor of the running mean of squares
  double epsilon = 1e-8;        // added to the square root
  double weight_decay = 0;      // weight_decay · w is added to the gradient
  double momentum = 0;          // applied to the quotients q below
  bool centered = false;        // divide by the gradients' standard deviation (Graves 2013)
  bool maximize = false;        // ascend the gradient
  RowUpdates rows = RowUpdates::kExact;  // see RowUpdates
};

/// Update rule of RMSprop.
struct RmsPropRule : RuleDefaults {
  using Options = RmsPropOptions;
  static constexpr std::string_view kName = "RMSprop";
  static constexpr std::array<std::string_view, 3> kSlots{"square_avg", "momentum", "grad_avg"};

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
    using std::fma;  // see SgdRule
    using std::max;
    using std::sqrt;
    auto& [square, velocity, mean] = state;
    Number d = Number(sign) * g;
    if (decay != 0) d = fma(Number(decay), w, d);
    square = fma(Number(enter) * d, d, Number(alpha) * square);
    Number spread = square;
    if (centered != 0) {
      mean = fma(Number(alpha), mean, Number(enter) * d);
      spread = max(fma(-mean, mean, square), Number(0));  // rounding may make it negative
    }
    const Number quotient = d / (sqrt(spread) + Number(epsilon));
    if (momentum != 0) {
      velocity = fma(Number(momentum), velocity, quotient);
      w = fma(Number(-rate), velocity, w);
    } else {
      w = fma(Number(-rate), quotient, w);
    }
  }

  Deferral deferral() const {
    return decay == 0 && epsilon > 0 ? Deferral::kLinear : Deferral::kReplay;
  }
};

/// RMSprop (Tieleman & Hinton 2012, lecture 6.5), the update of torch.optim.RMSprop:
///
///   d = ±gradient + weight_decay · w
///   s = alpha · s + (1 − alpha) · d²,  with centered: a = alpha · a + (1 − alpha) · d, s' = s − a²
///   q = d / (√s + epsilon), with centered √s' instead of √s
///   w = w − learning_rate · (q, or v = momentum · v + q with momentum)
///
/// With row gradients, deferred steps have a closed form if weight_decay = 0 and epsilon > 0.
/// Otherwise, steps are replayed when the row is read.
using RMSprop = RuleOptimizer<RmsPropRule>;

extern template class RuleOptimizer<RmsPropRule>;

// --- Adam and AdamW: one rule, with weight decay in the gradient or decoupled from it -----------

/// Options of Adam (kDecoupled = false) and AdamW (true).
template <bool kDecoupled>
struct AdamOptionsOf {
  double learning_rate = 1e-3;  // 0 or more
  double beta1 = 0.9;           // decay factor of the running mean of the gradients
  double beta2 = 0.999;         // decay factor of the running mean of squared gradients
  double epsilon = 1e-8;        // added to the square root
  /// Adam adds weight_decay · w to the gradient; AdamW first subtracts learning_rate · weight_decay
  /// · w from w.
  double weight_decay = kDecoupled ? 1e-2 : 0;
  bool amsgrad = false;   // use the largest mean of squares so far (Reddi et al. 2018)
  bool maximize = false;  // ascend the gradient
  RowUpdates rows = RowUpdates::kExact;  // see RowUpdates
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;

template <bool kDecoupled>  // update rule of Adam or AdamW
struct AdamRuleOf : RuleDefaults {
  using Options = AdamOptionsOf<kDecoupled>;
  static constexpr std::string_view kName = kDecoupled ? "AdamW" : "Adam";
  static constexpr std::array<std::string_view, 3> kSlots{"exp_avg", "exp_avg_sq",
                                                          "max_exp_avg_sq"};

  real beta1, enter1, beta2, enter2, step_size, inverse_correction, epsilon, sign;
  real decay;         // weight_decay for Adam, 0 for AdamW
  real decay_factor;  // 1 for Adam, 1 − learning_rate · weight_decay for AdamW
  real amsgrad;       // 1 or 0
  static auto members(const AdamRuleOf& r) {
    return std::tie(r.beta1, r.enter1, r.beta2, r.enter2, r.step_size, r.inverse_correction,
                    r.epsilon, r.sign, r.decay, r.decay_factor, r.amsgrad);
  }

  AdamRuleOf(const Options& options, const StepNumber& number);

  static void check(const Options& options);
  static std::array<bool, 3> uses(const Options& options) { return {true, true, options.amsgrad}; }

  template <class Number>
  void update(Number& w, const Number& g, std::array<Number, 3>& state) const {
    using std::fma;  // see SgdRule
    using std::max;
    using std::sqrt;
    auto& [mean, square, largest] = state;
    Number d = Number(sign) * g;
    if (decay != 0) d = fma(Number(decay), w, d);
    if (decay_factor != 1) w = Number(decay_factor) * w;
    mean = fma(Number(enter1), d, Number(beta1) * mean);
    square = fma(Number(enter2) * d, d, Number(beta2) * square);
    if (amsgrad != 0) largest = max(largest, square);
    const Number& divisor = amsgrad != 0 ? largest : square;
    w = w -
        Number(step_size) * mean / fma(sqrt(divisor), Number(inverse_correction), Number(epsilon));
  }

  /// Returns kAdam if there is a closed form. Without a gradient, each step multiplies the mean by
  /// beta1 and the root of the squares by √beta2 or more. The quotient of the two must shrink
  /// faster than decay shrinks the value; otherwise, no later step is negligible. A subnormal
  /// epsilon would keep steps large after the squares have faded to 0.
  Deferral deferral() const {
    const real ratio = beta1 / std::sqrt(beta2);
    const bool fades = ratio < 1 && decay_factor >= (1 + 3 * ratio) / 4;
    const bool moderate = epsilon >= std::numeric_limits<float>::min() && step_size < real{1e30F};
    return fades && moderate && decay == 0 ? Deferral::kAdam : Deferral::kReplay;
  }

  /// Returns false if amsgrad differs or epsilon fell: negligible steps may matter again with a
  /// smaller epsilon.
  bool continues(const AdamRuleOf& before) const {
    return amsgrad == before.amsgrad && epsilon >= before.epsilon;
  }
};
using AdamRule = AdamRuleOf<false>;  // update rule of Adam
using AdamWRule = AdamRuleOf<true>;  // update rule of AdamW

/// Adam (Kingma & Ba 2015, algorithm 1), the update of torch.optim.Adam in step t:
///
///   d = ±gradient + weight_decay · w
///   m = beta1 · m + (1 − beta1) · d,  v = beta2 · v + (1 − beta2) · d²
///   w = w − learning_rate / (1 − beta1ᵗ) · m / (√v / √(1 − beta2ᵗ) + epsilon)
///
/// With row gradients, deferred steps have a closed form if beta1 < √beta2, epsilon ≥ FLT_MIN and
/// weight_decay = 0 (for decay, prefer AdamW). Otherwise, steps are replayed one by one.
using Adam = RuleOptimizer<AdamRule>;

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2), the update of
/// torch.optim.AdamW: w = w · (1 − learning_rate · weight_decay), then Adam's step without decay.
using AdamW = RuleOptimizer<AdamWRule>;

extern template class RuleOptimizer<AdamRule>;
extern template class RuleOptimizer<AdamWRule>;

}  // namespace rowgrad
