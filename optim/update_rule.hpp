#pragma once

// Update rules, from which optimizers are made: a rule says how a step changes one value.

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// What a step with row gradients does to the rows that were not looked up.
enum class RowUpdates {
  /// The same as the dense optimizer, postponed until a row is read.
  kExact,
  /// Nothing, as in torch.optim.SparseAdam: cheaper, but not equal to the dense optimizer. These
  /// rows keep their values and states: momentum neither moves them nor fades, and decay does not
  /// shrink them. The step number (for Adam's bias correction) still counts every step. Switching
  /// back to kExact does not make up for what was left out.
  kTouchedOnly
};

/// What a step does to a value whose gradient is zero, as in rows that were not looked up.
enum class Idle {
  kNothing,  // neither the value nor its states change
  kLinear,   // a linear map of value and states, so that many steps are one matrix
  kFading,   // no closed form at first; once the states have faded, each is only scaled
  kReplay    // no closed form: steps are replayed one by one
};

/// The step of a parameter that a rule is made for.
struct StepNumber {
  std::uint64_t step = 1;      // counted from 1
  bool first_of_state = true;  // whether a state is used for the first time
};

/// Defaults for the parts of a rule, which hides those it replaces. All data members of a rule are
/// of type `real`, so that steps can be compared and saved. It also has
///
///   using Options        a struct with `double learning_rate` and `RowUpdates rows`
///   kName                the name of the optimizer, for messages
///   kStates              names of its states: one tensor each, of the shape of a parameter
///   check(options)       throws std::invalid_argument for a value outside its range
///   uses(options)        which of the states these options need
///   Rule(options, step)  the coefficients of one step
///   members(rule)        std::tie of all members
///   update(w, g, state)  the step itself, written once for `double` and for vectors of `real`
///   idle()               what update does with g = 0; kReplay is always correct
struct RuleDefaults {
  static constexpr std::array<std::string_view, 0> kStates{};

  template <class Options>
  static void check(const Options&) {}

  template <class Options>
  static std::array<bool, 0> uses(const Options&) {
    return {};
  }

  /// The initial value of a state.
  template <class Options>
  static double start(const Options&, std::size_t) {
    return 0;
  }

  Idle idle() const { return Idle::kReplay; }

  /// For Idle::kFading: whether the states are so small that further steps do not change the value.
  template <class Number, class State>
  auto faded(const Number& w, const State&) const {
    return w == w;
  }

  /// Whether a state that has faded under the previous rule has also faded under this one.
  template <class Rule>
  bool fades_like(const Rule&) const {
    return true;
  }
};

/// Whether these are all members of a rule, and all of type `real`: rules are saved as such arrays.
template <class Rule, class... Members>
constexpr bool are_all_members(std::type_identity<std::tuple<Members...>>) {
  return std::is_trivially_copyable_v<Rule> && (std::is_same_v<Members, const real&> && ...) &&
         sizeof...(Members) * sizeof(real) == sizeof(Rule);
}

/// What RuleOptimizer requires of a rule; RuleDefaults says what each part is for.
template <class Rule>
concept UpdateRule = requires(const Rule& rule, const typename Rule::Options& options,
                              double number, std::array<double, Rule::kStates.size()> state) {
  { Rule::kName } -> std::convertible_to<std::string_view>;
  { options.learning_rate } -> std::convertible_to<double>;
  { options.rows } -> std::convertible_to<RowUpdates>;
  Rule::check(options);
  { Rule::uses(options) } -> std::convertible_to<std::array<bool, Rule::kStates.size()>>;
  Rule(options, StepNumber());
  rule.update(number, number, state);
  requires are_all_members<Rule>(std::type_identity<decltype(Rule::members(rule))>());
  { rule.idle() } -> std::same_as<Idle>;
};

/// Throws std::logic_error if update does not do what idle() promises: that nothing changes, or
/// that the change is linear.
template <UpdateRule Rule>
void check_idle(const Rule& rule) {
  constexpr std::size_t kNumbers = 1 + Rule::kStates.size();
  using Numbers = std::array<double, kNumbers>;
  const auto step = [&rule](Numbers x) {
    std::array<double, Rule::kStates.size()> state;
    std::copy(x.begin() + 1, x.end(), state.begin());
    rule.update(x[0], 0.0, state);
    std::copy(state.begin(), state.end(), x.begin() + 1);
    return x;
  };
  Numbers x;
  for (std::size_t i = 0; i < kNumbers; ++i) x[i] = 0.75 - 0.125 * static_cast<double>(i);
  Numbers expected = x;  // according to idle()
  double magnitude = 1;  // of the terms of a sum, which is rounded
  if (rule.idle() == Idle::kLinear) {
    expected.fill(0);
    for (std::size_t i = 0; i < kNumbers; ++i) {
      Numbers unit{};
      unit[i] = 1;
      const Numbers image = step(unit);
      for (std::size_t k = 0; k < kNumbers; ++k) {
        expected[k] += x[i] * image[k];
        magnitude = std::max(magnitude, std::abs(image[k]));
      }
    }
  } else if (rule.idle() != Idle::kNothing) {
    return;
  }
  if (!(magnitude < 1e300)) return;  // near the limit of a double, sums prove nothing
  const Numbers after = step(x);
  for (std::size_t k = 0; k < kNumbers; ++k)
    check_state(std::abs(after[k] - expected[k]) <= 1e-9 * magnitude, Rule::kName,
                ": idle() says that a step without gradient ",
                rule.idle() == Idle::kLinear ? "is linear" : "changes nothing", ", but it makes ",
                k == 0 ? std::string_view("the number") : Rule::kStates[k - (k > 0)], " ", after[k],
                ", expected ", expected[k]);
}

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct OptionRange {
  double least = 0;
  double below = kUnbounded;
};

/// Throws std::invalid_argument unless the option is finite as a `real` and least ≤ value < below.
void check_option(std::string_view optimizer, std::string_view option, double value,
                  OptionRange range = {});

}  // namespace rowgrad
