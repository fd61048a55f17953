#pragma once

// The history of a table's deferred steps, and the composition of many steps into one.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <rowgrad/optim/step_map.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// Steps 1 … steps(), as runs of equal steps.
class StepRuns {
 public:
  struct Run {          // consecutive equal steps
    Deferral deferral;  // the rule's deferral(), or kReplay if the steps are not bounded
    std::uint64_t end;  // the last step of the run; the first follows the previous run
  };

  std::uint64_t steps() const { return runs_.empty() ? 0 : runs_.back().end; }  // counts the steps
  const std::vector<Run>& runs() const { return runs_; }                        // oldest first

  /// Returns the last step before a run.
  std::uint64_t begin_of(std::size_t run) const { return run == 0 ? 0 : runs_[run - 1].end; }

  /// Returns the index of the run that contains a step. Requires: 1 ≤ step ≤ steps().
  std::size_t run_of(std::uint64_t step) const {
    if (step > begin_of(runs_.size() - 1)) return runs_.size() - 1;
    const auto found = std::ranges::lower_bound(runs_, step, {}, &Run::end);
    return static_cast<std::size_t>(found - runs_.begin());
  }

  /// Returns true if any step after `from` has to be replayed.
  bool has_replay(std::uint64_t from) const { return from < last_replay_; }

  /// Returns true if any step changes values whose optimizer state is zero, as weight decay does.
  bool moves_without_state() const { return moves_without_state_; }

  /// Returns true if any step changes optimizer state that is zero.
  bool makes_state() const { return makes_state_; }

  /// Returns the last step to which a row at step `from` can be brought in closed form.
  std::uint64_t closed_until(std::uint64_t from) const {
    if (from >= last_replay_) return steps();
    std::size_t run = run_of(from + 1);
    while (runs_[run].deferral != Deferral::kReplay) ++run;
    return std::max(from, begin_of(run));
  }

 protected:
  std::vector<Run> runs_;             // oldest first
  std::uint64_t last_replay_ = 0;     // the last step that has no closed form
  bool moves_without_state_ = false;  // see moves_without_state()
  bool makes_state_ = false;          // see makes_state()
};

/// StepRuns with the rule of each run. Composing n steps takes O(log n) products, because blocks of
/// 2^kMinLevel runs and more are kept as maps. Smaller blocks, which would take most of the memory,
/// are composed when they are needed.
template <class Rule>
class StepHistory : public StepRuns {
 public:
  static constexpr std::size_t kArrays = kArraysOf<Rule>;  // values and slots

  using Map = StepMap<kArrays>;  // maps a value and its state

  const Rule& rule(std::size_t run) const { return rules_[run]; }  // returns the rule of a run

  /// Adds `count` equal steps.
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

  /// Drops all runs; the next step is step 1 again.
  void clear() { *this = {}; }

  /// Drops the first `count` runs. The next run then counts as if it began at step 1. Requires:
  /// `count` is a power of two, and no later call of compose_steps() starts in a dropped run.
  void drop_runs(std::size_t count) {
    const auto drop = [](auto& items, std::size_t first) {
      items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(first));
    };
    drop(runs_, count);
    drop(rules_, count);
    for (std::size_t i = 0; i < blocks_.size(); ++i) drop(blocks_[i], count >> (kMinLevel + i));
  }

  /// Returns steps `from` + 1 … `to` as one map. Requires: each step has a closed form.
  Map compose_steps(std::uint64_t from, std::uint64_t to) const {
    if (from == to) return identity<kArrays>();
    std::size_t run = run_of(from + 1);
    const std::size_t last = run_of(to);
    if (run == last) return power(run, to - from);
    Map result = identity<kArrays>();
    if (from > begin_of(run)) {
      result = power(run, runs_[run].end - from);
      ++run;
    }
    while (run < last) {  // add the largest aligned block that begins here and ends before `last`
      std::size_t level = 0;
      while ((run >> level & 1) == 0 && run + (std::size_t{2} << level) <= last) ++level;
      result = compose(block(level, run >> level), result);
      run += std::size_t{1} << level;
    }
    return compose(power(last, to - begin_of(last)), result);
  }

  /// Makes a step without gradient. values[0] is the value; its state follows.
  [[gnu::noinline]] static void step_without_gradient(const Rule& rule, double* values) {
    std::array<double, kArrays - 1> states;
    std::copy_n(values + 1, states.size(), states.begin());
    rule.update(values[0], 0.0, states);
    std::ranges::copy(states, values + 1);
  }

  /// Returns the map of a step without gradient. Each column is the rule applied to a unit vector
  /// of value and state.
  static Map map_without_gradient(const Rule& rule) {
    Map map{};
    for (std::size_t column = 0; column < kArrays; ++column) {
      std::array<double, kArrays> unit{};
      unit[column] = 1;
      step_without_gradient(rule, unit.data());
      // Adam's other entries are not linear: see deferred_adam_steps.hpp.
      for (std::size_t i = 0; i < kArrays; ++i)
        if (i == column || rule.deferral() != Deferral::kAdam) map[i][column] = unit[i];
    }
    return map;
  }

 private:
  static constexpr std::size_t kMinLevel = 3;

  void append_run(const Rule& rule, std::uint64_t count) {
    const bool is_closed =
        rule.deferral() != Deferral::kReplay && is_bounded(map_without_gradient(rule));
    for (std::size_t level = kMinLevel;
         !runs_.empty() && runs_.size() % (std::size_t{1} << level) == 0; ++level) {
      if (blocks_.size() == level - kMinLevel) blocks_.emplace_back();
      blocks_[level - kMinLevel].push_back(block(level, (runs_.size() >> level) - 1));
    }
    runs_.push_back({is_closed ? rule.deferral() : Deferral::kReplay, steps() + count});
    rules_.push_back(rule);
    powers_.clear();
  }

  // Records how the last run changes values whose state is zero. Steps without a closed form are
  // assumed to change everything.
  void note_move() {
    std::array<double, kArrays> value{1};
    step_without_gradient(rules_.back(), value.data());
    const bool makes_state =
        runs_.back().deferral == Deferral::kReplay ||
        std::any_of(value.begin() + 1, value.end(), [](double x) { return x != 0; });
    makes_state_ = makes_state_ || makes_state;
    if (makes_state || value[0] != 1) moves_without_state_ = true;
  }

  // Returns one step of a run as a map. The map is meaningless for kReplay.
  Map step_of(std::size_t run) const {
    return runs_[run].deferral == Deferral::kReplay ? identity<kArrays>()
                                                    : map_without_gradient(rules_[run]);
  }

  // Composes runs i · 2^level … (i + 1) · 2^level − 1. Requires: the last run is not included.
  [[gnu::noinline]] Map block(std::size_t level, std::size_t i) const {
    if (level == 0) return power(i, runs_[i].end - begin_of(i));
    if (level >= kMinLevel && level - kMinLevel < blocks_.size())
      if (const auto& kept = blocks_[level - kMinLevel]; i < kept.size()) return kept[i];
    return compose(block(level - 1, 2 * i + 1), block(level - 1, 2 * i));
  }

  // Returns `count` steps of a run as one map.
  [[gnu::noinline]] Map power(std::size_t run, std::uint64_t count) const {
    Map result = identity<kArrays>();
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
  std::vector<std::vector<Map>> blocks_;  // blocks_[i] has the blocks of level kMinLevel + i
  std::vector<Map> powers_;               // powers_[k] is 2^k steps of the last run
};

}  // namespace rowgrad
