#pragma once

// What an optimizer is made of: a rule that updates one number.

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

/// What happens to the rows of a table that a step with row gradients did not look up.
enum class RowUpdates {
  /// What the dense optimizer does, brought up to date when a row is read.
  kExact,
  /// Nothing, as in torch.optim.SparseAdam: cheaper, and not the dense optimizer. Rows that were
  /// not looked up keep their numbers and their states: no momentum moves them on, none fades, no
  /// decay shrinks them. The step number (Adam's bias correction) still counts every step. Going
  /// back to kExact does not make up for what was left out.
  kTouchedOnly
};

/// What a rule does to a number whose gradient is zero: what rows that were not looked up are owed.
enum class Idle {
  kNothing,  // neither the number nor its state changes
  kLinear,   // a linear map of number and state, so that many steps are one matrix
  kFading,   // no closed form at first; once the state has faded, each of them scales by itself
  kReplay    // no closed form: step by step
};

/// Which step of a parameter a rule is made for.
struct StepNumber {
  std::uint64_t step = 1;      // from 1
  bool first_of_state = true;  // the states in use begin with this step
};

/// The parts that most rules share; a rule hides those it does otherwise. A rule is a struct of
/// members of type `real` and nothing else, so that steps can be compared and saved. It has
///
///   using Options        a struct with `double learning_rate` and `RowUpdates rows`
///   kName                of the optimizer, for messages
///   kStates              names of the tensors it keeps for each parameter, of the same shape
///   check(options)       throws std::invalid_argument for a value outside its range
///   uses(options)        which of the states these options need
///   Rule(options, step)  the numbers of one step
///   members(rule)        std::tie of all of them
///   update(w, g, state)  the step itself, written once for `double` and for vectors of `real`
///   idle()               what update does with g = 0; kReplay is always right
struct RuleDefaults {
  static constexpr std::array<std::string_view, 0> kStates{};

  template <class Options>
  static void check(const Options&) {}

  template <class Options>
  static std::array<bool, 0> uses(const Options&) {
    return {};
  }

  /// What a state starts from.
  template <class Options>
  static double start(const Options&, std::size_t) {
    return 0;
  }

  Idle idle() const { return Idle::kReplay; }

  /// For Idle::kFading: whether the state is so small that no further step would move the number.
  template <class Number, class State>
  auto faded(const Number& w, const State&) const {
    return w == w;
  }

  /// Whether a state that has faded for the step before has faded for this one too.
  template <class Rule>
  bool fades_like(const Rule&) const {
    return true;
  }
};

/// Whether these are all members of a rule, and all of type `real`: it is saved as such.
template <class Rule, class... Members>
constexpr bool are_all_members(std::type_identity<std::tuple<Members...>>) {
  return std::is_trivially_copyable_v<Rule> && (std::is_same_v<Members, const real&> && ...) &&
         sizeof...(Members) * sizeof(real) == sizeof(Rule);
}

/// What RuleOptimizer asks of a rule; RuleDefaults says what each part is for.
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

/// Throws std::logic_error if idle() promises what update does not keep: that nothing changes, or
/// that what changes is linear.
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
  Numbers expected = x;  // as idle() has it
  double magnitude = 1;  // of what is added up, which is rounded
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
  if (!(magnitude < 1e300)) return;  // near the end of what a double holds, sums say nothing
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

/// Throws std::invalid_argument unless the option is finite and least ≤ value < below.
void check_option(std::string_view optimizer, std::string_view option, double value,
                  OptionRange range = {});

}  // namespace rowgrad
