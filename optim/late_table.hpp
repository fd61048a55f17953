#pragma once

// A table some of whose rows are owed updates: which, what, and how they get them.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>
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
/// Whatever changes the whole table (a dense gradient, Parameter::numbers) settles all of it for
/// good and gives it back.
template <class Rule>
class LateTable final : public LazyRows {
 public:
  using Arrays = RuleArrays<Rule>;

  /// Both must outlive it, or the parameter be destroyed first and not be used again.
  LateTable(Parameter& parameter, Arrays& arrays) : parameter_(&parameter), arrays_(arrays) {}
  ~LateTable() override {
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

  /// The rows as they stand [rows, width], the step each stands at [rows], and the history: [runs,
  /// 1 + numbers of the rule], the first of which counts its steps.
  struct Saved {
    Tensor numbers, at, history;
  };
  Saved save() const;

  /// For a table that has not begun: goes on from saved rows. Where a row, brought up to date, is
  /// not the parameter's bit for bit, the parameter's stays and only its states, which the caller
  /// has put in place, get what they were owed. refuse(part, what) is called for what does not fit,
  /// and throws. Nothing reaches the parameter before take_over(), which cannot fail.
  template <class Refuse>
  void load(Saved saved, std::uint64_t steps, const Refuse& refuse);
  void take_over();

 private:
  using History = StepHistory<Rule>;
  using Run = typename History::Run;
  using Owed = OwedSteps<Rule>;
  using Simd = typename Arrays::Simd;
  using Vectors = typename Arrays::Vectors;

  static constexpr std::size_t kFields = sizeof(Rule) / sizeof(real);
  static_assert(std::is_trivially_copyable_v<Rule> && sizeof(Rule) % sizeof(real) == 0,
                "a rule has numbers of type real and nothing else");

  // A row may rest only at these steps, so that resting does not depend on when it is read.
  static constexpr std::uint64_t kRestInterval = 8;
  // A history has at most so many runs, and at most about the table's memory.
  static constexpr std::size_t kMostRuns = 4096;
  static constexpr std::size_t kNumbersPerRun = 128;
  // Counts of steps up to here are numbers of type `real` without loss.
  static constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 24;

  std::size_t width() const { return parameter_->shape()[1]; }

  typename Arrays::Pointers row_at(std::size_t row) {
    return arrays_.at(table_.data(), row * width());
  }

  std::size_t half_history() const {  // a power of two
    return std::bit_floor(std::max(kMostRuns, table_.size() / kNumbersPerRun)) / 2;
  }

  bool history_is_long() const {
    return history_.runs().size() >= 2 * half_history() || history_.steps() >= kMostSteps;
  }

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
void LateTable<Rule>::step(const Rule& rule, const RowGradient& gradient, bool owes,
                           std::optional<Tensor> copy) {
  if (!lent_) {
    table_ = parameter_->lend(*this, std::move(copy));
    lent_ = true;
  }
  parameter_->note_change(*this);
  const std::uint64_t after = history_.steps() + (owes ? 1 : 0);
  visit_rows(gradient.size(), [&](std::size_t i, Owed& owed) {
    const auto row = static_cast<std::size_t>(gradient.numbers()[i]);
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
void LateTable<Rule>::shorten_history() {
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
[[gnu::noinline]] std::uint64_t LateTable<Rule>::catch_up(std::size_t row) {
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
bool LateTable<Rule>::rests(const Run& run, std::size_t row) {
  if (run.idle != Idle::kFading) return run.idle != Idle::kReplay;
  bool all = true;
  Arrays::read_span(width(), row_at(row), [&](const Vectors& x, const auto&) {
    all = all && xsimd::all(run.rule.faded(x[0], Arrays::states_of(x)));
  });
  return all;
}

// Applies for good what a row is owed, all of it in closed form.
template <class Rule>
void LateTable<Rule>::settle(std::size_t row, Owed& owed) {
  if (!owed.since(at_[row])) return;
  Arrays::change_span(
      width(), row_at(row), nullptr,
      [map = owed.map(), &owed](Vectors& x, const Simd&) { x = owed.apply(map, x); });
  at_[row] = owed.to();
}

// --- Reading and writing ------------------------------------------------------------------------

// A row's numbers, up to date, to `out`. It has been caught up with.
template <class Rule>
void LateTable<Rule>::copy_row(std::size_t row, Owed& owed, real* out) {
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
void LateTable<Rule>::catch_up_with(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> late;
  for (const std::int32_t id : ids)
    if (history_.has_replay(at_[static_cast<std::size_t>(id)])) late.push_back(id);
  std::sort(late.begin(), late.end());
  late.erase(std::unique(late.begin(), late.end()), late.end());
  visit_rows(late.size(),
             [&](std::size_t i, Owed&) { return catch_up(static_cast<std::size_t>(late[i])); });
}

template <class Rule>
void LateTable<Rule>::read_rows(std::span<const std::int32_t> ids, real* out) {
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
void LateTable<Rule>::read(real* out) {
  visit_rows(at_.size(), [&](std::size_t row, Owed& owed) {
    const std::uint64_t replayed = catch_up(row);
    copy_row(row, owed, out + row * width());
    return replayed;
  });
}

template <class Rule>
void LateTable<Rule>::write_rows(std::span<const std::int32_t> ids, const real* values) {
  visit_rows(ids.size(), [&](std::size_t i, Owed& owed) {
    const auto row = static_cast<std::size_t>(ids[i]);
    const std::uint64_t replayed = catch_up(row);
    settle(row, owed);
    std::copy_n(values + i * width(), width(), row_at(row)[0]);
    return replayed;
  });
}

template <class Rule>
Tensor LateTable<Rule>::release() {
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
auto LateTable<Rule>::save() const -> Saved {
  Saved saved{table_, empty({at_.size()}), empty({history_.runs().size(), 1 + kFields})};
  std::copy(at_.begin(), at_.end(), saved.at.data());
  std::uint64_t begin = 0;
  real* next = saved.history.data();
  for (const auto& run : history_.runs()) {
    *next++ = static_cast<real>(run.end - std::exchange(begin, run.end));
    const auto fields = std::bit_cast<std::array<real, kFields>>(run.rule);
    next = std::copy(fields.begin(), fields.end(), next);
  }
  return saved;
}

template <class Rule>
template <class Refuse>
void LateTable<Rule>::load(Saved saved, std::uint64_t steps, const Refuse& refuse) {
  const Shape& shape = saved.history.shape();
  if (shape.size() != 2 || shape[1] != 1 + kFields)
    refuse("history",
           concat("has shape ", bracketed(shape), ", expected [runs, ", 1 + kFields, "]"));
  const auto count = [&](const char* part, real number, std::uint64_t least, std::uint64_t most) {
    if (!(number >= static_cast<real>(least) && number <= static_cast<real>(most) &&
          number == std::floor(number)))
      refuse(part, concat("has ", number, ", expected a whole number from ", least, " to ", most));
    return static_cast<std::uint64_t>(number);
  };
  for (std::size_t run = 0; run < shape[0]; ++run) {
    const real* row = saved.history.data() + run * shape[1];
    std::array<real, kFields> fields;
    std::copy_n(row + 1, kFields, fields.begin());
    for (const real field : fields)
      if (!std::isfinite(field)) refuse("history", concat("has ", field));
    history_.append(std::bit_cast<Rule>(fields), count("history", row[0], 1, kMostSteps));
    if (history_.steps() > steps)
      refuse("history", concat("has more steps than the parameter's ", steps));
  }
  for (const real number : saved.at) at_.push_back(count("at", number, 0, history_.steps()));
  table_ = std::move(saved.numbers);
  Tensor numbers = empty(parameter_->shape());
  read(numbers.data());
  std::vector<std::int32_t> all(at_.size());
  std::iota(all.begin(), all.end(), 0);
  const Tensor present = parameter_->rows(all);  // and not value(), to which others may hold on
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
void LateTable<Rule>::take_over() {
  if (!std::exchange(loaded_, false)) return;
  table_ = parameter_->lend(*this, std::move(table_));
  lent_ = true;
}

}  // namespace rowgrad
