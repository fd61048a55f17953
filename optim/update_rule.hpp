#pragma once

// Update rules, from which optimizers are built. A rule defines how a step changes one value.

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

/// The effect of a step on a value whose gradient is zero, as in rows that were not looked up. It
/// determines how deferred steps are applied.
enum class Deferral {
  kNothing,  // neither the value nor its state changes
  kLinear,   // a linear map of value and state: many steps combine into one matrix
  kAdam,     // Adam and AdamW: the state is scaled, and the value changes less and less
  kReplay    // no closed form: steps are replayed one by one
};

/// The policy for rows without a gradient in a step with row gradients: rows that were not looked
/// up, the row of padding_idx, and rows that supplied no maximum to a bag with BagMode::kMax.
enum class RowUpdates {
  /// Step like the dense optimizer, deferred until the row is read.
  kExact,
  /// Skip these rows, as torch.optim.SparseAdam does: cheaper, but not equal to the dense
  /// optimizer. The rows keep their values and optimizer state: momentum neither moves them nor
  /// fades, and decay does not shrink them. Adam's bias correction still counts every step.
  /// Switching back to kExact does not apply the skipped steps. Other rows get the dense step.
  /// (SparseAdam's step differs: it adds epsilon to √v before the bias correction, which multiplies
  /// the effect of epsilon by 1 / √(1 − beta2ᵗ).)
  kTouchedOnly
};

/// The step of a parameter for which a rule is constructed.
struct StepNumber {
  std::uint64_t step = 1;    // counted from 1
  bool is_first_use = true;  // true if the step uses a slot for the first time
};

/// Base class of update rules, with defaults; a rule hides the members that it replaces. A rule
/// sees one value at a time. Optimizers that need norms, means over rows or columns, or matrices
/// (LARS, LAMB, Adafactor, Muon) derive from Optimizer instead. A rule has at most 32 data members,
/// all of type `real`, so that steps can be compared and saved. A rule also has
///
///   using Options        a struct with `double learning_rate` and `RowUpdates rows`
///   kName                the name of the optimizer, for messages
///   kSlots               the names of its slots (state arrays of the parameter's shape), at most 8
///   check(options)       throws std::invalid_argument for invalid options (default: never)
///   uses(options)        returns which slots these options need
///   Rule(options, step)  computes the coefficients of one step
///   members(rule)        returns std::tie of all data members
///   update(w, g, state)  makes the step; written once for `double` and for vectors of `real`
///                        (kernels/simd.hpp), so it must branch on coefficients only and choose
///                        between values with select(g > 0, a, b)
///   deferral()           returns what update does if g = 0; kReplay is always correct
struct RuleDefaults {
  static constexpr std::array<std::string_view, 0> kSlots{};

  static void check(const auto& /*options*/) {}
  static std::array<bool, 0> uses(const auto& /*options*/) { return {}; }

  /// Returns the initial value of a slot.
  static double start(const auto& /*options*/, std::size_t /*slot*/) { return 0; }

  Deferral deferral() const { return Deferral::kReplay; }

  /// Returns true if this step and the step `before` it can be combined in a closed form. If not,
  /// all rows are brought up to date between the two.
  bool continues(const auto& /*before*/) const { return true; }
};

/// The data members of any rule, in order, padded with zeros.
using RuleMembers = std::array<real, 32>;

/// Returns the data members of a rule.
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

/// The number of arrays that a rule changes: one of values and one for each slot.
template <class Rule>
constexpr std::size_t kArraysOf = 1 + Rule::kSlots.size();

// --- Checks of a rule ---------------------------------------------------------------------------

/// True if members() lists all data members of a rule, and all are of type `real`.
template <class Rule>
constexpr bool kListsItsMembers = []<class... Members>(std::type_identity<std::tuple<Members...>>) {
  return std::is_trivially_copyable_v<Rule> && (std::is_same_v<Members, const real&> && ...) &&
         sizeof...(Members) * sizeof(real) == sizeof(Rule);
}(std::type_identity<decltype(Rule::members(std::declval<const Rule&>()))>());

/// The requirements of RuleOptimizer on a rule, which RuleDefaults documents.
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

struct OptionRange {          // the valid values of an option: least ≤ value < below
  double least = 0;           // the smallest valid value
  double below = kUnbounded;  // exclusive upper bound
};

/// Throws std::invalid_argument unless the option is finite as a `real` and within the range.
void check_option(std::string_view optimizer, std::string_view option, double value,
                  OptionRange range = {});

}  // namespace rowgrad
