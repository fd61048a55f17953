#pragma once

// A table some of whose rows are owed updates: which, what, and how they get them.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/optim/owed_steps.hpp>

namespace rowgrad {

/// Keeps a parameter's table from the first step that owes rows something. That step and those that
/// follow change the rows that have a gradient and only note what they would have done to the
/// others: row r, with its states, stands as of step at_[r]. Reading a row applies the rest:
///
/// - Steps without a closed form are replayed, and stay done: at_[r] moves on.
/// - A closed form is applied to the copy that is read; the row itself stays as it was. So the bits
///   of a run do not depend on when somebody looked: at a checkpoint, in an evaluation.
///
/// Whatever changes the whole table (a dense gradient, Parameter::mutable_values) settles all of it
/// for good and gives it back.
template <class Rule>
class LazyTable final : public LazyRows {
 public:
  using Arrays = RuleArrays<Rule>;

  /// Both must outlive it, or the parameter be destroyed first and not be used again.
  LazyTable(Parameter& parameter, Arrays& arrays) : parameter_(&parameter), arrays_(arrays) {}
  ~LazyTable() override {
    if (lent_) parameter_->reclaim();
  }

  /// Whether the parameter's numbers are here.
  bool lent() const { return lent_; }

  /// Everything of a step that may fail. Whatever can be read stays as it is. Returns what the step
  /// wants for its `copy`.
  std::optional<Tensor> prepare_step() {
    if (lent_ && history_is_long()) parameter_->reclaim();
    if (!lent_) {
      at_.assign(parameter_->shape()[0], 0);
      history_.clear();
    }
    history_.reserve_step();
    return lent_ ? std::nullopt : parameter_->copy_to_lend();
  }

  /// A step, after prepare_step(): of the rows that have a gradient, after what they are owed; and,
  /// if it owes that to them, a note of it for the others.
  void step(const Rule& rule, const RowGradient& gradient, bool owes, std::optional<Tensor> copy);

  /// Rows read, updated or settled so far, and steps replayed over a row.
  std::uint64_t rows_visited() const { return rows_visited_; }

  /// While lent: the rows as they stand, "values" [rows, width], the step that each stands at, "at"
  /// [rows], and the history: how many "steps" [runs] each of the "rules" [runs, members] made.
  static constexpr std::array kParts{"values", "at", "steps", "rules"};
  Checkpoint state_dict() const;

  /// For a table that has not begun: goes on from such a state, of a parameter that made
  /// `most_steps`. Where a row, brought up to date, is not the parameter's bit for bit, the
  /// parameter's stays and only its states, which the caller has put in place, get what they were
  /// owed. Nothing reaches the parameter before take_over(), which cannot fail.
  void load(const Checkpoint& state, std::uint64_t most_steps);
  void take_over();

 private:
  using History = StepHistory<Rule>;
  using Run = typename History::Run;
  using Owed = OwedSteps<Rule>;
  using Simd = typename Arrays::Simd;
  using Vectors = typename Arrays::Vectors;

  static constexpr std::size_t kMembers = sizeof(Rule) / sizeof(real);

  // A row may rest only at these steps, so that resting does not depend on when it is read.
  static constexpr std::uint64_t kRestInterval = 8;
  // A history has at most so many runs, and at most about the table's memory.
  static constexpr std::size_t kMostRuns = 4096;
  static constexpr std::size_t kNumbersPerRun = 128;

  std::size_t width() const { return parameter_->shape()[1]; }

  typename Arrays::Pointers row_at(std::size_t row) {
    return arrays_.at(table_.data(), row * width());
  }

  std::size_t half_history() const {  // a power of two
    return std::bit_floor(std::max(kMostRuns, table_.size() / kNumbersPerRun)) / 2;
  }

  bool history_is_long() const { return history_.runs().size() >= 2 * half_history(); }

  // Calls visit(i, owed) for i from 0 to count − 1, over threads; it returns the steps it replayed.
  template <class Visit>
  void visit_rows(std::size_t count, const Visit& visit) {
    std::atomic<std::uint64_t> replayed = 0;
    kernels::parallel_for(count, kernels::row_grain(width()),
                          [&](std::size_t begin, std::size_t end) {
                            Owed owed(history_, history_.steps());
                            std::uint64_t here = 0;
                            for (std::size_t i = begin; i < end; ++i) here += visit(i, owed);
                            replayed += here;
                          });
    rows_visited_ += count + replayed;
  }

  std::uint64_t catch_up(std::size_t row);
  bool rests(const Run& run, std::size_t row);
  void settle(std::size_t row, Owed& owed);
  void shorten_history();
  void copy_row(std::size_t row, Owed& owed, real* out);
  void catch_up_with(std::span<const std::int32_t> ids);

  void read_rows(std::span<const std::int32_t> ids, real* out) override;
  void read(real* out) override;
  void write_rows(std::span<const std::int32_t> ids, const real* values) override;
  Tensor release() override;
  void abandon() noexcept override { lent_ = false; }

  Parameter* parameter_;
  Arrays& arrays_;
  bool lent_ = false;
  bool loaded_ = false;  // and waits to take over
  Tensor table_;
  std::vector<std::uint64_t> at_;
  History history_;
  std::atomic<std::uint64_t> rows_visited_ = 0;
};

// --- Steps --------------------------------------------------------------------------------------

template <class Rule>
void LazyTable<Rule>::step(const Rule& rule, const RowGradient& gradient, bool owes,
                           std::optional<Tensor> copy) {
  if (!lent_) {
    table_ = parameter_->lend(*this, std::move(copy));
    lent_ = true;
  }
  parameter_->note_change(*this);
  const std::uint64_t after = history_.steps() + (owes ? 1 : 0);
  visit_rows(gradient.size(), [&](std::size_t i, Owed& owed) {
    const auto row = static_cast<std::size_t>(gradient.indices()[i]);
    const std::uint64_t replayed = catch_up(row);
    const real* values = gradient.row(i).data();
    if (owed.since(at_[row])) {
      Arrays::change_span(width(), row_at(row), values,
                          [rule, map = owed.map(), &owed](Vectors& x, const Simd& g) {
                            x = owed.apply(map, x);
                            Arrays::update(rule, x, g);
                          });
    } else {
      Arrays::change_span(width(), row_at(row), values,
                          [rule](Vectors& x, const Simd& g) { Arrays::update(rule, x, g); });
    }
    at_[row] = after;
    return replayed;
  });
  if (!owes) return;
  const std::size_t runs = history_.runs().size();
  history_.append(rule);
  if (history_.runs().size() > runs) shorten_history();
}

// Once the history is half full, every further run settles its share of the rows that stand before
// the second half. When it is full, none does, and the first half is forgotten.
template <class Rule>
void LazyTable<Rule>::shorten_history() {
  const std::size_t half = half_history();
  if (history_.runs().size() <= half) return;
  const std::uint64_t since = history_.runs()[half - 1].end;
  // To a step at which rows may rest, if there is one, so that those that rest do so still.
  Owed owed(history_, std::max(since, history_.steps() - history_.steps() % kRestInterval));
  const auto settle_row = [&](std::size_t row) {
    // First, for without it the step that a row stands at depends on who read it.
    rows_visited_ += catch_up(row);
    if (at_[row] >= since) return;
    settle(row, owed);
    ++rows_visited_;
  };
  const std::size_t share = history_.runs().size() - half;  // 1 … half
  const std::size_t end = at_.size() * share / half;
  for (std::size_t row = at_.size() * (share - 1) / half; row < end; ++row) settle_row(row);
  if (share < half) return;
  for (std::size_t row = 0; row < at_.size(); ++row)
    if (at_[row] < since) settle_row(row);  // it was loaded after its turn
  history_.forget(half);
}

// Replays what a row is owed until a closed form holds for all the rest. Returns the number of
// steps replayed. Never inlined: the compiler might fuse multiplications and additions here and not
// there, and bits would depend on the caller.
template <class Rule>
[[gnu::noinline]] std::uint64_t LazyTable<Rule>::catch_up(std::size_t row) {
  std::uint64_t& at = at_[row];
  std::uint64_t replayed = 0;
  while (history_.has_replay(at)) {
    const auto* run = &history_.runs()[history_.run_of(at + 1)];
    if (at % kRestInterval == 0 && rests(*run, row)) {
      const std::uint64_t end = history_.closed_until(at);
      if (end == history_.steps()) break;
      if (end > at) {
        Owed owed(history_, end);
        settle(row, owed);
        continue;
      }
    }
    // As many steps at once as fit: the numbers stay in registers meanwhile.
    std::array<const Rule*, kRestInterval> rules;
    std::size_t count = 0;
    do {
      rules[count++] = &run->rule;
      if (++at == run->end) ++run;
    } while (at % kRestInterval != 0 && history_.has_replay(at));
    Arrays::change_span(width(), row_at(row), nullptr, [&](Vectors& x, const Simd& zero) {
      for (std::size_t i = 0; i < count; ++i) Arrays::update(*rules[i], x, zero);
    });
    replayed += count;
  }
  return replayed;
}

// Whether the closed form of a step holds for a row as it is.
template <class Rule>
bool LazyTable<Rule>::rests(const Run& run, std::size_t row) {
  if (run.idle != Idle::kFading) return run.idle != Idle::kReplay;
  bool all = true;
  Arrays::read_span(width(), row_at(row), [&](const Vectors& x, const auto&) {
    all = all && xsimd::all(run.rule.faded(x[0], Arrays::states_of(x)));
  });
  return all;
}

// Applies for good what a row is owed, all of it in closed form.
template <class Rule>
void LazyTable<Rule>::settle(std::size_t row, Owed& owed) {
  if (!owed.since(at_[row])) return;
  Arrays::change_span(
      width(), row_at(row), nullptr,
      [map = owed.map(), &owed](Vectors& x, const Simd&) { x = owed.apply(map, x); });
  at_[row] = owed.to();
}

// --- Reading and writing ------------------------------------------------------------------------

// A row's numbers, up to date, to `out`. It has been caught up with.
template <class Rule>
void LazyTable<Rule>::copy_row(std::size_t row, Owed& owed, real* out) {
  const auto pointers = row_at(row);
  if (!owed.since(at_[row])) {
    std::copy_n(pointers[0], width(), out);
    return;
  }
  Arrays::read_span(width(), pointers,
                    [map = owed.map(), &owed, out](const Vectors& x, const auto& put) {
                      put(owed.number(map, x), out);
                    });
}

// Each row once, however often its id occurs: replays write.
template <class Rule>
void LazyTable<Rule>::catch_up_with(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> due;
  for (const std::int32_t id : ids)
    if (history_.has_replay(at_[static_cast<std::size_t>(id)])) due.push_back(id);
  std::sort(due.begin(), due.end());
  due.erase(std::unique(due.begin(), due.end()), due.end());
  visit_rows(due.size(),
             [&](std::size_t i, Owed&) { return catch_up(static_cast<std::size_t>(due[i])); });
}

template <class Rule>
void LazyTable<Rule>::read_rows(std::span<const std::int32_t> ids, real* out) {
  if (history_.has_replay(0)) catch_up_with(ids);
  visit_rows(ids.size(), [&](std::size_t i, Owed& owed) {
    if (i + kernels::kRowsAhead < ids.size())
      for (const real* array : row_at(static_cast<std::size_t>(ids[i + kernels::kRowsAhead])))
        if (array != nullptr) kernels::prefetch_row(array, width());
    copy_row(static_cast<std::size_t>(ids[i]), owed, out + i * width());
    return 0;
  });
}

template <class Rule>
void LazyTable<Rule>::read(real* out) {
  visit_rows(at_.size(), [&](std::size_t row, Owed& owed) {
    const std::uint64_t replayed = catch_up(row);
    copy_row(row, owed, out + row * width());
    return replayed;
  });
}

template <class Rule>
void LazyTable<Rule>::write_rows(std::span<const std::int32_t> ids, const real* values) {
  visit_rows(ids.size(), [&](std::size_t i, Owed& owed) {
    const auto row = static_cast<std::size_t>(ids[i]);
    const std::uint64_t replayed = catch_up(row);
    settle(row, owed);
    std::copy_n(values + i * width(), width(), row_at(row)[0]);
    return replayed;
  });
}

template <class Rule>
Tensor LazyTable<Rule>::release() {
  visit_rows(at_.size(), [&](std::size_t row, Owed& owed) {
    const std::uint64_t replayed = catch_up(row);
    settle(row, owed);
    return replayed;
  });
  lent_ = false;
  history_.clear();
  return std::move(table_);
}

// --- Saving and loading -------------------------------------------------------------------------

template <class Rule>
Checkpoint LazyTable<Rule>::state_dict() const {
  const auto& runs = history_.runs();
  std::vector<std::int64_t> steps;
  Tensor rules = empty({runs.size(), kMembers});
  for (std::size_t run = 0; run < runs.size(); ++run) {
    steps.push_back(static_cast<std::int64_t>(runs[run].end - (run == 0 ? 0 : runs[run - 1].end)));
    const auto members = std::bit_cast<std::array<real, kMembers>>(runs[run].rule);
    std::ranges::copy(members, rules.data() + run * kMembers);
  }
  Checkpoint state;
  state.put("values", table_);
  state.put("at", std::vector<std::int64_t>(at_.begin(), at_.end()));
  state.put("steps", std::move(steps));
  state.put("rules", std::move(rules));
  return state;
}

template <class Rule>
void LazyTable<Rule>::load(const Checkpoint& state, std::uint64_t most_steps) {
  const auto check_count = [&](const char* name, std::int64_t count, std::int64_t least,
                               std::uint64_t most) {
    check_argument(count >= least && static_cast<std::uint64_t>(count) <= most, Rule::kName,
                   "::load_state_dict: '", parameter_->name(), ".lazy.", name, "' has ", count,
                   ", expected a number from ", least, " to ", most);
    return static_cast<std::uint64_t>(count);
  };
  check_argument(parameter_->shape().size() == 2, Rule::kName, "::load_state_dict: '",
                 parameter_->name(), "' is no table, but its state has lazy rows");
  table_ = state.tensor("values", parameter_->shape());
  const auto steps = state.integers("steps");
  const Tensor rules = state.tensor("rules", {steps.size(), kMembers});
  for (std::size_t run = 0; run < steps.size(); ++run) {
    std::array<real, kMembers> members;
    std::copy_n(rules.data() + run * kMembers, kMembers, members.begin());
    for (const real member : members)
      check_argument(std::isfinite(member), Rule::kName, "::load_state_dict: '", parameter_->name(),
                     ".lazy.rules' has ", member);
    history_.append(std::bit_cast<Rule>(members),
                    check_count("steps", steps[run], 1, most_steps - history_.steps()));
  }
  const auto at = state.integers("at");
  check_argument(at.size() == parameter_->shape()[0], Rule::kName, "::load_state_dict: '",
                 parameter_->name(), ".lazy.at' has ", at.size(), " numbers, expected ",
                 parameter_->shape()[0]);
  for (const std::int64_t step : at) at_.push_back(check_count("at", step, 0, history_.steps()));

  Tensor numbers = empty(parameter_->shape());
  read(numbers.data());
  const Tensor present = parameter_->copy();
  visit_rows(at_.size(), [&](std::size_t row, Owed& owed) {
    const real* kept = present.data() + row * width();
    if (std::memcmp(numbers.data() + row * width(), kept, width() * sizeof(real)) != 0) {
      settle(row, owed);
      std::copy_n(kept, width(), row_at(row)[0]);
    }
    return 0;
  });
  loaded_ = true;
}

template <class Rule>
void LazyTable<Rule>::take_over() {
  if (!std::exchange(loaded_, false)) return;
  table_ = parameter_->lend(*this, std::move(table_));
  lent_ = true;
}

}  // namespace rowgrad
