#pragma once

// The steps that rows may have missed, and the composition of many steps into one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

struct RuleFunctions;

/// What a step does to a value whose gradient is zero, as in rows that were not looked up.
enum class Idle {
  kNothing,  // neither the value nor its states change
  kLinear,   // a linear map of value and states, so that many steps are one matrix
  kAdam,     // Adam's: the states are scaled, and the value moves less and less
  kReplay    // no closed form: steps are replayed one by one
};

/// A coefficient of many steps composed into one. Its range is far wider than that of `real`,
/// because a tiny coefficient times a large value may be an ordinary value.
using Coefficient = std::conditional_t<std::is_same_v<real, float>, double, long double>;

/// A linear map of a value and its states.
template <std::size_t N>
using LinearMap = std::array<std::array<Coefficient, N>, N>;

template <std::size_t N>  // changes nothing
LinearMap<N> identity_map() {
  LinearMap<N> result{};
  for (std::size_t i = 0; i < N; ++i) result[i][i] = 1;
  return result;
}

/// Applies `before`, then `after`. Coefficients of 0 are skipped, so 0 · ∞ gives no NaN; and others
/// do not become 0 by underflow, so that infinity stays infinite.
template <std::size_t N>
LinearMap<N> compose(const LinearMap<N>& after, const LinearMap<N>& before);

/// The closed form of a step without gradient. Applying the rule itself to each unit vector of
/// value and states gives one column of the map. `members` are those of the rule.
template <std::size_t N>
LinearMap<N> idle_map(const RuleFunctions& rule, const real* members);

/// The largest factor by which values may grow, even temporarily, in steps with a closed form.
constexpr Coefficient kMostGrowth = 1 << 24;

/// Steps 1 … steps() of one rule, with equal consecutive steps stored as one run. Any range of
/// steps that have a closed form is composed in a number of products that grows with the logarithm
/// of its length: blocks of 2^kLeastLevel runs and more are kept as maps, smaller ones are composed
/// when they are needed, as they would take most of the memory.
class StepHistory {
 public:
  explicit StepHistory(const RuleFunctions& rule) : rule_(&rule) {}  // without any steps

  struct Run {          // of equal steps
    Idle idle;          // the rule's, or kReplay if its steps are not bounded
    std::uint64_t end;  // its last step; the first follows the end of the previous run
  };

  std::uint64_t steps() const { return runs_.empty() ? 0 : runs_.back().end; }  // how many so far
  const std::vector<Run>& runs() const { return runs_; }                        // in their order

  /// The members of a run's rule.
  const real* members(std::size_t run) const { return members_.data() + run * member_count(); }

  /// Whether a step after `from` has to be replayed.
  bool has_replay(std::uint64_t from) const { return from < last_replay_; }

  void clear() { *this = StepHistory(*rule_); }  // forgets all steps

  /// Drops the first half of the runs: `count` of them, a power of two. Ranges that begin before
  /// their end must not be requested any more: the next run counts as if it began at step 1.
  void forget(std::size_t count);

  /// Reserves memory for another step, so that appending it cannot fail.
  void reserve_step();

  void append(const real* members, std::uint64_t count = 1);  // adds steps

  /// The index of the run that contains a step; 1 ≤ step ≤ steps().
  std::size_t run_of(std::uint64_t step) const;

  /// The last step to which a row can be brought from `from` in closed form: the step after it has
  /// none.
  std::uint64_t closed_until(std::uint64_t from) const;

  /// Steps from + 1 … to as one map; each of them must have a closed form. N is one more than the
  /// number of the rule's states.
  template <std::size_t N>
  LinearMap<N> compose_steps(std::uint64_t from, std::uint64_t to) const;

 private:
  using Maps = std::vector<Coefficient>;  // one after the other, by rows

  static constexpr std::size_t kLeastLevel = 3;

  std::size_t member_count() const;
  std::size_t map_size() const;
  std::uint64_t begin_of(std::size_t run) const { return run == 0 ? 0 : runs_[run - 1].end; }
  template <std::size_t N>
  LinearMap<N> step_of(std::size_t run) const;
  template <std::size_t N>
  LinearMap<N> power(std::size_t run, std::uint64_t count) const;
  std::size_t blocks_completed() const;
  template <std::size_t N>
  LinearMap<N> block(std::size_t level, std::size_t i) const;
  template <std::size_t N>
  void append_run(const real* members, std::uint64_t count);
  template <std::size_t N>
  void extend_powers();

  const RuleFunctions* rule_;
  std::vector<Run> runs_;
  std::vector<real> members_;      // of the runs' rules
  std::vector<Maps> blocks_;       // of level kLeastLevel, then of those above
  Maps powers_;                    // 2^k steps of the last run
  std::uint64_t last_replay_ = 0;  // the last step that has no closed form
};

}  // namespace rowgrad
