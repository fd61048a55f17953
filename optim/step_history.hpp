#pragma once

// The steps that rows of a table may be owed, and the composition of many steps into one.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// A coefficient of many steps composed into one. Its range is far wider than that of `real`,
/// because a tiny coefficient times a large value may be an ordinary value.
using Coefficient = std::conditional_t<std::is_same_v<real, float>, double, long double>;

/// A linear map of a value and its states.
template <std::size_t N>
using LinearMap = std::array<std::array<Coefficient, N>, N>;

template <std::size_t N>
LinearMap<N> identity_map() {
  LinearMap<N> result{};
  for (std::size_t i = 0; i < N; ++i) result[i][i] = 1;
  return result;
}

/// Applies `before`, then `after`. Coefficients of 0 are skipped, so 0 · ∞ gives no NaN; and others
/// do not become 0 by underflow, so that infinity stays infinite.
template <std::size_t N>
LinearMap<N> compose(const LinearMap<N>& after, const LinearMap<N>& before) {
  constexpr Coefficient kLeast = std::numeric_limits<Coefficient>::min();
  LinearMap<N> result{};
  for (std::size_t i = 0; i < N; ++i)
    for (std::size_t k = 0; k < N; ++k)
      if (after[i][k] != 0)
        for (std::size_t j = 0; j < N; ++j)
          if (before[k][j] != 0) {
            const Coefficient product = after[i][k] * before[k][j];
            result[i][j] += std::abs(product) < kLeast ? std::copysign(kLeast, product) : product;
          }
  return result;
}

/// The value and states after a step without gradient.
template <class Rule>
auto idle_step(const Rule& rule, std::array<double, 1 + Rule::kStates.size()> values) {
  std::array<double, Rule::kStates.size()> states;
  std::copy(values.begin() + 1, values.end(), states.begin());
  rule.update(values[0], 0.0, states);
  std::copy(states.begin(), states.end(), values.begin() + 1);
  return values;
}

/// The closed form of a step without gradient. Applying the rule itself to each unit vector of
/// value and states gives one column of the map.
template <class Rule>
LinearMap<1 + Rule::kStates.size()> idle_map(const Rule& rule) {
  constexpr std::size_t kArrays = 1 + Rule::kStates.size();
  LinearMap<kArrays> map{};
  for (std::size_t column = 0; column < kArrays; ++column) {
    std::array<double, kArrays> unit{};
    unit[column] = 1;
    unit = idle_step(rule, unit);
    for (std::size_t i = 0; i < kArrays; ++i) map[i][column] = unit[i];
  }
  // What else Adam does is not linear: see owed_adam_steps.hpp.
  if (rule.idle() == Idle::kAdam)
    for (std::size_t i = 0; i < kArrays; ++i)
      for (std::size_t j = 0; j < kArrays; ++j)
        if (i != j) map[i][j] = 0;
  return map;
}

/// Throws std::logic_error if update does not do what idle() promises: that nothing changes, or
/// that the change is linear.
template <UpdateRule Rule>
void check_idle(const Rule& rule) {
  constexpr std::size_t kArrays = 1 + Rule::kStates.size();
  const bool linear = rule.idle() == Idle::kLinear;
  if (!linear && rule.idle() != Idle::kNothing) return;
  const auto map = linear ? idle_map(rule) : identity_map<kArrays>();
  std::array<double, kArrays> x, expected{};
  for (std::size_t i = 0; i < kArrays; ++i) x[i] = 0.75 - 0.125 * static_cast<double>(i);
  double magnitude = 1;  // of the terms of a sum, which is rounded
  for (std::size_t i = 0; i < kArrays; ++i)
    for (std::size_t k = 0; k < kArrays; ++k) {
      expected[k] += x[i] * static_cast<double>(map[k][i]);
      magnitude = std::max(magnitude, std::abs(static_cast<double>(map[k][i])));
    }
  if (!(magnitude < 1e300)) return;  // near the limit of a double, sums prove nothing
  const auto after = idle_step(rule, x);
  for (std::size_t k = 0; k < kArrays; ++k)
    check_state(std::abs(after[k] - expected[k]) <= 1e-9 * magnitude, Rule::kName,
                ": idle() says that a step without gradient ",
                linear ? "is linear" : "changes nothing", ", but it makes ",
                k == 0 ? std::string_view("the number") : Rule::kStates[k - (k > 0)], " ", after[k],
                ", expected ", expected[k]);
}

/// The largest factor by which values may grow, even temporarily, in steps with a closed form.
constexpr Coefficient kMostGrowth = 1 << 24;

/// Whether thousands of such steps keep values within that bound. If not, values may leave the
/// range of `real` in between and return at the end, which the composed map would not show.
template <std::size_t N>
bool is_bounded(LinearMap<N> map) {
  for (int doubling = 0; doubling <= 12; ++doubling) {
    for (const auto& row : map)
      for (const Coefficient coefficient : row)
        if (!(std::abs(coefficient) <= kMostGrowth)) return false;
    map = compose(map, map);
  }
  return true;
}

/// Steps 1 … steps(), with equal consecutive steps stored as one run. Any range of steps that have
/// a closed form is composed in a number of products that grows with the logarithm of its length.
template <class Rule>
class StepHistory {
 public:
  static constexpr std::size_t kArrays = 1 + Rule::kStates.size();
  using Map = LinearMap<kArrays>;

  struct Run {
    Rule rule;
    Idle idle;          // the rule's, or kReplay if its steps are not bounded
    std::uint64_t end;  // its last step; the first follows the end of the previous run
    Map map;            // of one step; meaningless for kReplay
  };

  std::uint64_t steps() const { return runs_.empty() ? 0 : runs_.back().end; }
  const std::vector<Run>& runs() const { return runs_; }

  /// Whether a step after `from` has to be replayed.
  bool has_replay(std::uint64_t from) const { return from < last_replay_; }

  void clear() { *this = StepHistory(); }

  /// Drops the first half of the runs: `count` of them, a power of two. Ranges that begin before
  /// their end must not be requested any more: the next run counts as if it began at step 1.
  void forget(std::size_t count) {
    runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t level = 0; level < blocks_.size(); ++level)
      blocks_[level].erase(blocks_[level].begin(),
                           blocks_[level].begin() + static_cast<std::ptrdiff_t>(count >> level));
  }

  /// Reserves memory for another step, so that appending it cannot fail.
  void reserve_step() {
    make_room(runs_);
    make_room(powers_);
    for (std::size_t level = 0;; ++level) {  // the levels that complete_last_run() would reach
      if (blocks_.size() == level) blocks_.emplace_back();
      make_room(blocks_[level]);
      if (blocks_[level].size() % 2 == 0) return;
    }
  }

  void append(const Rule& rule, std::uint64_t count = 1) {
    if (!runs_.empty() && Rule::members(runs_.back().rule) == Rule::members(rule)) {
      runs_.back().end += count;
    } else {
      Run next{rule, rule.idle(), steps() + count, idle_map(rule)};
      if (next.idle == Idle::kReplay || !is_bounded(next.map)) {
        next.idle = Idle::kReplay;
        next.map = identity_map<kArrays>();
      }
      if (!runs_.empty()) complete_last_run();
      runs_.push_back(next);
      powers_.clear();
    }
    if (runs_.back().idle == Idle::kReplay) last_replay_ = steps();
    extend_powers();
  }

  /// The index of the run that contains a step; 1 ≤ step ≤ steps().
  std::size_t run_of(std::uint64_t step) const {
    if (step > begin_of(runs_.size() - 1)) return runs_.size() - 1;
    const auto found =
        std::lower_bound(runs_.begin(), runs_.end(), step,
                         [](const Run& run, std::uint64_t wanted) { return run.end < wanted; });
    return static_cast<std::size_t>(found - runs_.begin());
  }

  /// The last step to which a row can be brought from `from` in closed form: the step after it has
  /// none.
  std::uint64_t closed_until(std::uint64_t from) const {
    if (from >= last_replay_) return steps();
    std::size_t run = run_of(from + 1);
    while (runs_[run].idle != Idle::kReplay) ++run;
    return std::max(from, begin_of(run));
  }

  /// Steps from + 1 … to as one map; each of them must have a closed form.
  Map compose_steps(std::uint64_t from, std::uint64_t to) const {
    Map result = identity_map<kArrays>();
    if (from == to) return result;
    std::size_t run = run_of(from + 1);
    const std::size_t last = run_of(to);
    if (run == last) return power(run, to - from);
    if (from > begin_of(run)) {
      result = power(run, runs_[run].end - from);
      ++run;
    }
    while (run < last) {  // the largest aligned block that begins here and ends before `last`
      std::size_t level = 0;
      while (level + 1 < blocks_.size() && (run >> level & 1) == 0 &&
             run + (std::size_t{2} << level) <= last)
        ++level;
      result = compose(blocks_[level][run >> level], result);
      run += std::size_t{1} << level;
    }
    return compose(power(last, to - begin_of(last)), result);
  }

 private:
  // Reserves memory for one more item, in amortised constant time.
  template <class T>
  static void make_room(std::vector<T>& items) {
    if (items.size() == items.capacity()) items.reserve(2 * items.size() + 1);
  }

  std::uint64_t begin_of(std::size_t run) const { return run == 0 ? 0 : runs_[run - 1].end; }

  // The step of a run, applied `count` times.
  Map power(std::size_t run, std::uint64_t count) const {
    Map result = identity_map<kArrays>();
    bool first = true;
    Map square = runs_[run].map;
    const bool known = run + 1 == runs_.size();
    for (std::size_t bit = 0; count >> bit != 0; ++bit) {
      if (known) {
        square = powers_[bit];
      } else if (bit > 0) {
        square = compose(square, square);
      }
      if ((count >> bit & 1) != 0)
        result = std::exchange(first, false) ? square : compose(square, result);
    }
    return result;
  }

  // powers_[k]: 2^k steps of the last run.
  void extend_powers() {
    const std::uint64_t count = runs_.back().end - begin_of(runs_.size() - 1);
    while (count >> powers_.size() != 0)
      powers_.push_back(powers_.empty() ? runs_.back().map
                                        : compose(powers_.back(), powers_.back()));
  }

  // blocks_[k][i] composes the completed runs i · 2^k … (i + 1) · 2^k − 1.
  void complete_last_run() {
    const std::size_t last = runs_.size() - 1;
    Map block = power(last, runs_[last].end - begin_of(last));
    for (std::size_t level = 0;; ++level) {
      if (blocks_.size() == level) blocks_.emplace_back();
      auto& row = blocks_[level];
      row.push_back(block);
      if (row.size() % 2 != 0) return;
      block = compose(row[row.size() - 1], row[row.size() - 2]);
    }
  }

  std::vector<Run> runs_;
  std::vector<std::vector<Map>> blocks_;
  std::vector<Map> powers_;
  std::uint64_t last_replay_ = 0;  // the last step that has no closed form
};

}  // namespace rowgrad
