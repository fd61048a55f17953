#pragma once

// The deferred steps of a table, and the composition of many steps into one.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// A coefficient of many steps composed into one. Its range is far wider than that of `real`,
/// because a tiny coefficient times a large value may be an ordinary value.
using Coefficient = std::conditional_t<std::is_same_v<real, float>, double, long double>;

/// The largest factor by which values may grow, even temporarily, in steps with a closed form.
constexpr Coefficient kMostGrowth = 1 << 24;

/// Steps 1 … steps(): how many are equal, and which of them have a closed form.
class StepRuns {
 public:
  struct Run {          // of equal consecutive steps
    Deferral deferral;  // of their rule, or kReplay if they are not bounded
    std::uint64_t end;  // its last step; the first follows the end of the previous run
  };

  std::uint64_t steps() const { return runs_.empty() ? 0 : runs_.back().end; }  // how many so far
  const std::vector<Run>& runs() const { return runs_; }                        // in their order

  /// The last step before a run.
  std::uint64_t begin_of(std::size_t run) const { return run == 0 ? 0 : runs_[run - 1].end; }

  /// The index of the run that contains a step; 1 ≤ step ≤ steps().
  std::size_t run_of(std::uint64_t step) const {
    if (step > begin_of(runs_.size() - 1)) return runs_.size() - 1;
    const auto found = std::ranges::lower_bound(runs_, step, {}, &Run::end);
    return static_cast<std::size_t>(found - runs_.begin());
  }

  /// Whether a step after `from` has to be replayed.
  bool has_replay(std::uint64_t from) const { return from < last_replay_; }

  /// Returns true if a step changes values whose states are zeros, as weight decay does.
  bool moves_without_state() const { return moves_without_state_; }

  /// Returns true if a step gives a state other than zeros to values whose states are zeros.
  bool makes_state() const { return makes_state_; }

  /// The last step to which a row can be brought from `from` in closed form: the next has none.
  std::uint64_t closed_until(std::uint64_t from) const {
    if (from >= last_replay_) return steps();
    std::size_t run = run_of(from + 1);
    while (runs_[run].deferral != Deferral::kReplay) ++run;
    return std::max(from, begin_of(run));
  }

 protected:
  std::vector<Run> runs_;             // of equal steps
  std::uint64_t last_replay_ = 0;     // the last step that has no closed form
  bool moves_without_state_ = false;  // see there
  bool makes_state_ = false;          // see makes_state
};

/// The steps of one rule. Any range of steps that have a closed form is composed in a number of
/// products that grows with the logarithm of its length: blocks of 2^kLeastLevel runs and more are
/// kept as maps, smaller ones are composed when they are needed, as they would take most of the
/// memory.
template <class Rule>
class StepHistory : public StepRuns {
 public:
  static constexpr std::size_t kArrays = kArraysOf<Rule>;  // values and states

  /// A linear map of a value and its states.
  using Map = std::array<std::array<Coefficient, kArrays>, kArrays>;

  const Rule& rule(std::size_t run) const { return rules_[run]; }  // of each step of a run

  /// Adds equal steps.
  void append(const Rule& rule, std::uint64_t count = 1) {
    if (!runs_.empty() && members_of(rule) == members_of(rules_.back()))
      runs_.back().end += count;
    else
      append_run(rule, count);
    const std::uint64_t last = runs_.back().end - begin_of(runs_.size() - 1);
    while (last >> powers_.size() != 0)
      powers_.push_back(powers_.empty() ? step_of(runs_.size() - 1)
                                        : compose(powers_.back(), powers_.back()));
    if (runs_.back().deferral == Deferral::kReplay) last_replay_ = steps();
    note_move();
  }

  /// Drops the first `count` runs: all, after which steps count from 1 again, or half of them, a
  /// power of two. Then ranges that begin before their end must not be requested any more: the next
  /// run counts as if it began at step 1.
  void forget(std::size_t count) {
    if (count == runs_.size()) {
      *this = {};
      return;
    }
    const auto drop = [](auto& items, std::size_t first) {
      items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(first));
    };
    drop(runs_, count);
    drop(rules_, count);
    for (std::size_t i = 0; i < blocks_.size(); ++i) drop(blocks_[i], count >> (kLeastLevel + i));
  }

  /// Steps from + 1 … to as one map; each of them must have a closed form.
  Map compose_steps(std::uint64_t from, std::uint64_t to) const {
    if (from == to) return identity();
    std::size_t run = run_of(from + 1);
    const std::size_t last = run_of(to);
    if (run == last) return power(run, to - from);
    Map result = identity();
    if (from > begin_of(run)) {
      result = power(run, runs_[run].end - from);
      ++run;
    }
    while (run < last) {  // the largest aligned block that begins here and ends before `last`
      std::size_t level = 0;
      while ((run >> level & 1) == 0 && run + (std::size_t{2} << level) <= last) ++level;
      result = compose(block(level, run >> level), result);
      run += std::size_t{1} << level;
    }
    return compose(power(last, to - begin_of(last)), result);
  }

  /// Changes nothing.
  static Map identity() {
    Map result{};
    for (std::size_t i = 0; i < kArrays; ++i) result[i][i] = 1;
    return result;
  }

  /// Applies `before`, then `after`. Coefficients of 0 are skipped, so 0 · ∞ gives no NaN; and
  /// others do not become 0 by underflow, so that infinity stays infinite. Not inlined, so that its
  /// bits do not depend on the caller.
  [[gnu::noinline]] static Map compose(const Map& after, const Map& before) {
    constexpr Coefficient kLeast = std::numeric_limits<Coefficient>::min();
    Map result{};
    for (std::size_t i = 0; i < kArrays; ++i)
      for (std::size_t k = 0; k < kArrays; ++k)
        if (after[i][k] != 0)
          for (std::size_t j = 0; j < kArrays; ++j)
            if (before[k][j] != 0) {
              const Coefficient product = after[i][k] * before[k][j];
              result[i][j] += std::abs(product) < kLeast ? std::copysign(kLeast, product) : product;
            }
    return result;
  }

  /// A step without gradient of a value and the states that follow it.
  [[gnu::noinline]] static void step_without_gradient(const Rule& rule, double* values) {
    std::array<double, kArrays - 1> states;
    std::copy_n(values + 1, states.size(), states.begin());
    rule.update(values[0], 0.0, states);
    std::ranges::copy(states, values + 1);
  }

  /// The closed form of such a step. Applying the rule itself to each unit vector of value and
  /// states gives one column of the map.
  static Map map_without_gradient(const Rule& rule) {
    Map map{};
    for (std::size_t column = 0; column < kArrays; ++column) {
      std::array<double, kArrays> unit{};
      unit[column] = 1;
      step_without_gradient(rule, unit.data());
      // What else Adam does is not linear: see deferred_adam_steps.hpp.
      for (std::size_t i = 0; i < kArrays; ++i)
        if (i == column || rule.deferral() != Deferral::kAdam) map[i][column] = unit[i];
    }
    return map;
  }

 private:
  static constexpr std::size_t kLeastLevel = 3;

  // Whether thousands of such steps keep values within kMostGrowth. If not, values may leave the
  // range of `real` in between and return at the end, which the composed map would not show.
  static bool is_bounded(Map map) {
    for (int doubling = 0; doubling <= 12; ++doubling) {
      for (const auto& row : map)
        for (const Coefficient coefficient : row)
          if (!(std::abs(coefficient) <= kMostGrowth)) return false;
      map = compose(map, map);
    }
    return true;
  }

  void append_run(const Rule& rule, std::uint64_t count) {
    const bool is_closed =
        rule.deferral() != Deferral::kReplay && is_bounded(map_without_gradient(rule));
    for (std::size_t level = kLeastLevel;
         !runs_.empty() && runs_.size() % (std::size_t{1} << level) == 0; ++level) {
      if (blocks_.size() == level - kLeastLevel) blocks_.emplace_back();
      blocks_[level - kLeastLevel].push_back(block(level, (runs_.size() >> level) - 1));
    }
    runs_.push_back({is_closed ? rule.deferral() : Deferral::kReplay, steps() + count});
    rules_.push_back(rule);
    powers_.clear();
  }

  // Notes what the last run does to values whose states are zeros. Without a closed form, nothing
  // is known about it.
  void note_move() {
    std::array<double, kArrays> value{1};
    step_without_gradient(rules_.back(), value.data());
    const bool makes_state =
        runs_.back().deferral == Deferral::kReplay ||
        std::any_of(value.begin() + 1, value.end(), [](double x) { return x != 0; });
    makes_state_ = makes_state_ || makes_state;
    if (makes_state || value[0] != 1) moves_without_state_ = true;
  }

  // One step of a run; meaningless for kReplay.
  Map step_of(std::size_t run) const {
    return runs_[run].deferral == Deferral::kReplay ? identity()
                                                    : map_without_gradient(rules_[run]);
  }

  // Runs i · 2^level … (i + 1) · 2^level − 1, but the last, which may go on.
  [[gnu::noinline]] Map block(std::size_t level, std::size_t i) const {
    if (level == 0) return power(i, runs_[i].end - begin_of(i));
    if (level >= kLeastLevel && level - kLeastLevel < blocks_.size())
      if (const auto& kept = blocks_[level - kLeastLevel]; i < kept.size()) return kept[i];
    return compose(block(level - 1, 2 * i + 1), block(level - 1, 2 * i));
  }

  // The step of a run, applied `count` times.
  [[gnu::noinline]] Map power(std::size_t run, std::uint64_t count) const {
    Map result = identity();
    bool first = true;
    const bool is_known = run + 1 == runs_.size();
    Map square = is_known ? powers_[0] : step_of(run);
    for (std::size_t bit = 0; count >> bit != 0; ++bit) {
      if (is_known)
        square = powers_[bit];
      else if (bit > 0)
        square = compose(square, square);
      if ((count >> bit & 1) != 0)
        result = std::exchange(first, false) ? square : compose(square, result);
    }
    return result;
  }

  std::vector<Rule> rules_;               // one for each run
  std::vector<std::vector<Map>> blocks_;  // of level kLeastLevel, then of those above
  std::vector<Map> powers_;               // 2^k steps of the last run
};

}  // namespace rowgrad
