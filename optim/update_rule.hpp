#pragma once

// Update rules, from which optimizers are made: a rule says how a step changes one value.

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <rowgrad/core/kernels/simd.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// How steps are deferred: what a step does to a value whose gradient is zero, as in rows that were
/// not looked up.
enum class Deferral {
  kNothing,  // neither the value nor its state changes
  kLinear,   // a linear map of value and state, so that many steps are one matrix
  kAdam,     // Adam's: the state is scaled, and the value moves less and less
  kReplay    // no closed form: steps are replayed one by one
};

/// The policy for rows without a gradient in a step with row gradients: rows that were not looked
/// up, the row of padding_idx, and rows of a bag with BagMode::kMax that were largest in no column.
enum class RowUpdates {
  /// The same as the dense optimizer, deferred until a row is read.
  kExact,
  /// Nothing, as in torch.optim.SparseAdam: cheaper, but not equal to the dense optimizer. These
  /// rows keep their values and states: momentum neither moves them nor fades, and decay does not
  /// shrink them. The step number (for Adam's bias correction) still counts every step. Switching
  /// back to kExact does not make up for what was left out. The step of the other rows is the dense
  /// one: SparseAdam's differs by its epsilon, which it adds to √v before the bias correction, so
  /// that it weighs 1 / √(1 − beta2ᵗ) times as much.
  kTouchedOnly
};

/// The step of a parameter that a rule is made for.
struct StepNumber {
  std::uint64_t step = 1;    // counted from 1
  bool is_first_use = true;  // true if a slot is used for the first time
};

/// Defaults for the parts of a rule, which hides those it replaces. A rule sees one value at a
/// time: what needs norms, means over rows or columns, or matrices (LARS, LAMB, Adafactor, Muon)
/// derives from Optimizer instead. All data members of a rule are of type `real`, and at most 32,
/// so that steps can be compared and saved. It also has
///
///   using Options        a struct with `double learning_rate` and `RowUpdates rows`
///   kName                the name of the optimizer, for messages
///   kSlots               names of its slots, at most 8: arrays of state of a parameter's shape
///   check(options)       throws std::invalid_argument for a value outside its range
///   uses(options)        which of the slots these options need
///   Rule(options, step)  the coefficients of one step
///   members(rule)        std::tie of all members
///   update(w, g, state)  the step itself, written once for `double` and for vectors of `real`
///                        (kernels/simd.hpp); branches on its coefficients only: what depends on
///                        values is chosen with select(g > 0, a, b)
///   deferral()           what update does with g = 0; kReplay is always correct
struct RuleDefaults {
  static constexpr std::array<std::string_view, 0> kSlots{};

  static void check(const auto& /*options*/) {}
  static std::array<bool, 0> uses(const auto& /*options*/) { return {}; }

  /// The initial value of a slot.
  static double start(const auto& /*options*/, std::size_t /*slot*/) { return 0; }

  Deferral deferral() const { return Deferral::kReplay; }

  /// Returns true if steps of this rule and of the one before have a closed form together. If not,
  /// all rows are brought up to date in between.
  bool continues(const auto& /*before*/) const { return true; }
};

/// The members of any rule, in their order, and then zeros: a rule whose type is not known.
using RuleMembers = std::array<real, 32>;

/// Returns the members of a rule.
template <class Rule>
RuleMembers members_of(const Rule& rule) {
  RuleMembers members{};
  std::memcpy(&members, &rule, sizeof rule);
  return members;
}

/// Returns the rule with these members.
template <class Rule>
Rule rule_with(const RuleMembers& members) {
  std::array<real, sizeof(Rule) / sizeof(real)> own;
  std::copy_n(members.begin(), own.size(), own.begin());
  return std::bit_cast<Rule>(own);
}

/// The number of arrays that a rule changes: the values, then each of the slots.
template <class Rule>
constexpr std::size_t kArraysOf = 1 + Rule::kSlots.size();

// --- Checks of a rule ---------------------------------------------------------------------------

/// True if members() lists all members of a rule, and all are of type `real`.
template <class Rule>
constexpr bool kListsItsMembers = []<class... Members>(std::type_identity<std::tuple<Members...>>) {
  return std::is_trivially_copyable_v<Rule> && (std::is_same_v<Members, const real&> && ...) &&
         sizeof...(Members) * sizeof(real) == sizeof(Rule);
}(std::type_identity<decltype(Rule::members(std::declval<const Rule&>()))>());

/// What RuleOptimizer requires of a rule; RuleDefaults says what each part is for.
template <class Rule>
concept UpdateRule = requires(const Rule& rule, const typename Rule::Options& options,
                              double number, std::array<double, Rule::kSlots.size()> state) {
  { Rule::kName } -> std::convertible_to<std::string_view>;
  { options.learning_rate } -> std::convertible_to<double>;
  { options.rows } -> std::convertible_to<RowUpdates>;
  Rule::check(options);
  { Rule::uses(options) } -> std::convertible_to<std::array<bool, Rule::kSlots.size()>>;
  Rule(options, StepNumber());
  rule.update(number, number, state);
  Rule::members(rule);
  { rule.deferral() } -> std::same_as<Deferral>;
};

constexpr double kUnbounded = std::numeric_limits<double>::infinity();  // no limit

struct OptionRange {          // of an option's values
  double least = 0;           // the least value that is allowed
  double below = kUnbounded;  // values are below it
};

/// Throws std::invalid_argument unless the option is finite as a `real` and least ≤ value < below.
void check_option(std::string_view optimizer, std::string_view option, double value,
                  OptionRange range = {});

}  // namespace rowgrad
