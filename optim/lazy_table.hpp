#pragma once

// A table with lazy updates: which rows are owed which steps, and how they are brought up to date.
// (How it is saved and loaded: lazy_table_state.hpp.)

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

/// Holds a parameter's table from the first step that postpones updates. Each step changes only the
/// rows that have a gradient; the other rows are owed the step, which is kept in a history. Row r
/// and its states are up to date as of step at_[r]. Reading a row applies the steps it is owed:
///
/// - Steps without a closed form are replayed on the stored row: at_[r] increases.
/// - A closed form is applied to the copy that is read, not to the stored row. So the bits of a run
///   do not depend on when rows are read, for example for a checkpoint or an evaluation.
///
/// Before anything changes the whole table (a dense gradient, Parameter::mutable_values), all rows
/// are settled: their postponed updates are applied, and the parameter gets the table back.
///
/// A table in a file keeps its rows, their states and at_ there. Nothing passes over all of its
/// rows: what would have to is refused, and its history is not shortened (some 80 bytes for each
/// step whose rule differs from the one before).
template <class Rule>
class LazyTable final : public LazyRows {
 public:
  using Arrays = RuleArrays<Rule>;

  /// Both must outlive it. The parameter may be destroyed earlier if this object is no longer used.
  LazyTable(Parameter& parameter, Arrays& arrays)
      : parameter_(&parameter), file_(parameter.file()), arrays_(arrays) {}
  ~LazyTable() override {
    if (lent_) parameter_->reclaim();
  }

  /// Whether this object holds the parameter's values.
  bool lent() const { return lent_; }

  /// For a table in a file: throws std::logic_error if its rows are owed steps that are not known
  /// here, and std::invalid_argument for a rule before which all rows would have to be settled.
  void check_file(const Rule& rule) const;

  /// Does the parts of a step that may fail, without changing any value that can be read. Returns
  /// the `copy` to pass to step().
  std::optional<Tensor> prepare_step() {
    if (file_ != nullptr) {
      prepare_file(parameter_->gradient().rows().indices());
    } else if (lent_ && history_is_long()) {
      parameter_->reclaim();
    }
    if (!lent_) {
      if (file_ == nullptr) at_.assign(parameter_->shape()[0], 0);
      history_.clear();
    }
    history_.reserve_step();
    return lent_ ? std::nullopt : parameter_->copy_to_lend();
  }

  /// Makes a step, after prepare_step(): brings the rows that have a gradient up to date and
  /// updates them. If `owes`, the other rows are owed the step from now on.
  void step(const Rule& rule, const RowGradient& gradient, bool owes, std::optional<Tensor> copy);

  /// The number of rows read, updated or settled so far, plus the number of steps replayed on rows.
  std::uint64_t rows_visited() const { return rows_visited_; }

  /// While lent: the stored rows, "values" [rows, width], of which a large table leaves out those
  /// of zeros (saved_rows.hpp); the step at_ of each, "at" [rows]; and the history: "rules" [runs,
  /// members], each with its number of "steps" [runs]. A table in a file has the first two there,
  /// and saves the mark of its checkpoint: "file".
  static constexpr std::array kParts{"values", "values.rows", "values.values", "at",
                                     "steps",  "rules",       "file"};
  Checkpoint state_dict() const;

  /// Loads such a state into a new object, for a parameter that has made `most_steps` steps. If a
  /// row, brought up to date, differs from the parameter's in any bit, the parameter's values are
  /// kept, and only the states of the row, which the caller has already loaded, are brought up to
  /// date. The parameter does not change before take_over(), which cannot fail.
  void load(const Checkpoint& state, std::uint64_t most_steps);
  void take_over();

 private:
  using History = StepHistory<Rule>;
  using Owed = OwedSteps<Rule>;
  using Simd = typename Arrays::Simd;
  using Vectors = typename Arrays::Vectors;

  static constexpr std::size_t kMembers = sizeof(Rule) / sizeof(real);

  // The most runs in a history: kMostRuns or, for large tables, one per kNumbersPerRun values,
  // which takes about as much memory as the table.
  static constexpr std::size_t kMostRuns = 4096;
  static constexpr std::size_t kNumbersPerRun = 128;

  std::size_t width() const { return parameter_->shape()[1]; }
  // A row to work on: its values and states, and the step that they are of.
  struct Row {
    typename Arrays::Pointers numbers;
    std::uint64_t* at;
  };
  Row row_at(std::size_t row) {
    return file_ != nullptr ? Row{arrays_.beside(file_->row(row), width()), &file_->step(row)}
                            : Row{arrays_.at(table_.data(), row * width()), &at_[row]};
  }

  std::size_t half_history() const {  // a power of two
    return std::bit_floor(std::max(kMostRuns, table_.size() / kNumbersPerRun)) / 2;
  }

  bool history_is_long() const { return history_.runs().size() >= 2 * half_history(); }

  // Calls visit(i, owed), which returns the number of steps it replayed, for i < count in parallel.
  void visit_rows(std::size_t count, const auto& visit) {
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

  bool breaks_history(const Rule& rule) const {
    return !history_.runs().empty() && !rule.continues(history_.runs().back().rule);
  }
  void prepare_file(std::span<const std::int32_t> ids);
  std::uint64_t step_of(std::size_t row) const;
  std::uint64_t catch_up(const Row& row);
  void settle(const Row& row, Owed& owed);
  void settle_all();
  void shorten_history();
  void copy_row(const Row& row, Owed& owed, real* out);
  std::vector<real> untouched_row();
  std::uint64_t copy_from_file(std::size_t row, Owed& owed, real* out);
  void catch_up_with(std::span<const std::int32_t> ids);

  void read_rows(std::span<const std::int32_t> ids, real* out) override;
  void read(real* out) override;
  void write_rows(std::span<const std::int32_t> ids, const real* values) override;
  Tensor release() override;
  void abandon() noexcept override { lent_ = false; }

  Parameter* parameter_;
  TableFile* file_;  // null for a table in memory
  Arrays& arrays_;
  bool lent_ = false;
  bool loaded_ = false;  // but take_over() has not been called yet
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
  const auto& runs = history_.runs();
  if (owes && file_ != nullptr) file_->set_owed();
  if (owes && breaks_history(rule)) settle_all();
  const std::uint64_t after = history_.steps() + (owes ? 1 : 0);
  visit_rows(gradient.size(), [&](std::size_t i, Owed& owed) {
    const Row row = row_at(static_cast<std::size_t>(gradient.indices()[i]));
    const std::uint64_t replayed = catch_up(row);
    const real* values = gradient.row(i).data();
    const bool late = owed.visit(*row.at, [&](const auto& part, auto last) {
      Arrays::change_span(width(), row.numbers, values,
                          [rule, part, last](Vectors& x, const Simd& g) {
                            x = part(x);
                            if (last) Arrays::update(rule, x, g);
                          });
    });
    if (!late)
      Arrays::change_span(width(), row.numbers, values,
                          [rule](Vectors& x, const Simd& g) { Arrays::update(rule, x, g); });
    *row.at = after;
    return replayed;
  });
  if (!owes) return;
  const std::size_t count = runs.size();
  history_.append(rule);
  if (runs.size() > count && file_ == nullptr) shorten_history();
}

template <class Rule>
void LazyTable<Rule>::check_file(const Rule& rule) const {
  const auto& name = parameter_->name();
  check_state(lent_ || !file_->owed(), Rule::kName, ": rows of ", name, " in ",
              file_->path().string(), " are owed steps; load the optimizer's state first");
  check_argument(!breaks_history(rule), Rule::kName,
                 ": these options do not continue those before, which takes a pass over all rows, ",
                 "but those of ", name, " are in ", file_->path().string());
}

template <class Rule>
void LazyTable<Rule>::prepare_file(std::span<const std::int32_t> ids) {
  file_->verify_rows(ids);
  for (const std::int32_t id : ids) step_of(static_cast<std::size_t>(id));
  file_->begin_change(ids);
}

// The step that a row of a file is of.
template <class Rule>
std::uint64_t LazyTable<Rule>::step_of(std::size_t row) const {
  const std::uint64_t step = file_->is_current(row) ? file_->step(row) : 0;
  check_runtime(step <= history_.steps(), file_->path().string(), ": row ", row, " is of step ",
                step, ", but ", Rule::kName, " has made ", history_.steps(),
                "; this is another optimizer's table, or a damaged one");
  return step;
}

// Once the history is half full, every further run settles its share of the rows that are owed
// steps from the first half. When it is full, no such row is left, and the first half is dropped.
template <class Rule>
void LazyTable<Rule>::shorten_history() {
  const std::size_t half = half_history();
  if (history_.runs().size() <= half) return;
  const std::uint64_t since = history_.runs()[half - 1].end;
  Owed owed(history_, history_.steps());
  const auto settle_row = [&](std::size_t row) {
    // Catches up first: otherwise at_[row] would depend on which rows were read before.
    rows_visited_ += catch_up(row_at(row));
    if (at_[row] >= since) return;
    settle(row_at(row), owed);
    ++rows_visited_;
  };
  const std::size_t share = history_.runs().size() - half;  // 1 … half
  const std::size_t end = at_.size() * share / half;
  for (std::size_t row = at_.size() * (share - 1) / half; row < end; ++row) settle_row(row);
  if (share < half) return;
  for (std::size_t row = 0; row < at_.size(); ++row)
    if (at_[row] < since) settle_row(row);  // loaded after its turn
  history_.forget(half);
}

// Replays steps that a row is owed until all remaining ones have a closed form. Returns the number
// of steps replayed. Never inlined: otherwise the compiler might fuse multiplications and additions
// in one place but not in another, and the bits would depend on the caller.
template <class Rule>
[[gnu::noinline]] std::uint64_t LazyTable<Rule>::catch_up(const Row& row) {
  std::uint64_t& at = *row.at;
  std::uint64_t replayed = 0;
  while (history_.has_replay(at)) {
    Owed owed(history_, history_.closed_until(at));
    settle(row, owed);
    // Several steps at once, with the values in registers.
    const auto* run = &history_.runs()[history_.run_of(at + 1)];
    std::array<const Rule*, 8> rules;
    std::size_t count = 0;
    do {
      rules[count++] = &run->rule;
      if (++at == run->end) ++run;
    } while (count < rules.size() && history_.has_replay(at) && run->idle == Idle::kReplay);
    Arrays::change_span(width(), row.numbers, nullptr, [&](Vectors& x, const Simd& zero) {
      for (std::size_t i = 0; i < count; ++i) Arrays::update(*rules[i], x, zero);
    });
    replayed += count;
  }
  return replayed;
}

// Applies the steps up to owed.to(), which must all have a closed form, to the stored row.
template <class Rule>
void LazyTable<Rule>::settle(const Row& row, Owed& owed) {
  owed.visit(*row.at, [&](const auto& part, auto) {
    Arrays::change_span(width(), row.numbers, nullptr,
                        [part](Vectors& x, const Simd&) { x = part(x); });
  });
  *row.at = owed.to();
}

template <class Rule>
void LazyTable<Rule>::settle_all() {
  visit_rows(at_.size(), [&](std::size_t i, Owed& owed) {
    const Row row = row_at(i);
    const std::uint64_t replayed = catch_up(row);
    settle(row, owed);
    return replayed;
  });
}

// --- Reading and writing ------------------------------------------------------------------------

// Copies a row, up to date, to `out`. catch_up() must have been called for it.
template <class Rule>
void LazyTable<Rule>::copy_row(const Row& row, Owed& owed, real* out) {
  auto numbers = row.numbers;
  const bool late = owed.visit(*row.at, [&](const auto& part, auto) {
    Arrays::read_span(width(), numbers,
                      [part, out](const Vectors& x, const auto& put) { put(part(x)[0], out); });
    numbers[0] = out;  // where the next part goes on
  });
  if (!late) std::copy_n(numbers[0], width(), out);
}

// Reading a file changes nothing in it, so steps are replayed on a copy.
template <class Rule>
std::uint64_t LazyTable<Rule>::copy_from_file(std::size_t row, Owed& owed, real* out) {
  std::uint64_t at = step_of(row);
  if (file_->is_current(row) && !history_.has_replay(at)) {
    copy_row(row_at(row), owed, out);
    return 0;
  }
  std::vector<real> copy((1 + file_->states()) * width());
  file_->read(row, copy);
  const Row copied{arrays_.beside(copy.data(), width()), &at};
  const std::uint64_t replayed = catch_up(copied);
  copy_row(copied, owed, out);
  return replayed;
}

// Catches up each row only once, however often its id occurs, because replays change the row.
template <class Rule>
void LazyTable<Rule>::catch_up_with(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> due;
  for (const std::int32_t id : ids)
    if (history_.has_replay(at_[static_cast<std::size_t>(id)])) due.push_back(id);
  std::sort(due.begin(), due.end());
  due.erase(std::unique(due.begin(), due.end()), due.end());
  visit_rows(due.size(), [&](std::size_t i, Owed&) {
    return catch_up(row_at(static_cast<std::size_t>(due[i])));
  });
}

template <class Rule>
void LazyTable<Rule>::read_rows(std::span<const std::int32_t> ids, real* out) {
  if (file_ != nullptr) {
    file_->bring_in(ids);
    for (const std::int32_t id : ids) step_of(static_cast<std::size_t>(id));
    visit_rows(ids.size(), [&](std::size_t i, Owed& owed) {
      return copy_from_file(static_cast<std::size_t>(ids[i]), owed, out + i * width());
    });
    return;
  }
  if (history_.has_replay(0)) catch_up_with(ids);
  visit_rows(ids.size(), [&](std::size_t i, Owed& owed) {
    if (i + kernels::kRowsAhead < ids.size())
      for (const real* array :
           row_at(static_cast<std::size_t>(ids[i + kernels::kRowsAhead])).numbers)
        if (array != nullptr) kernels::prefetch_row(array, width());
    copy_row(row_at(static_cast<std::size_t>(ids[i])), owed, out + i * width());
    return 0;
  });
}

// What becomes of a row of zeros, with states of zeros, in all steps so far; empty if that takes
// replays, or no row has been owed them from the first on.
template <class Rule>
std::vector<real> LazyTable<Rule>::untouched_row() {
  if (history_.has_replay(0) || std::ranges::find(at_, 0U) == at_.end()) return {};
  std::vector<real> numbers(Arrays::kArrays * width()), result(width());
  typename Arrays::Pointers pointers = arrays_.at(table_.data(), 0);
  for (std::size_t i = 0; i < pointers.size(); ++i)
    if (pointers[i] != nullptr) pointers[i] = numbers.data() + i * width();
  std::uint64_t at = 0;
  Owed owed(history_, history_.steps());
  copy_row({pointers, &at}, owed, result.data());
  return result;
}

// Most rows of a large table may never have been touched. If they are zeros, what they became is
// computed only once.
template <class Rule>
void LazyTable<Rule>::read(real* out) {
  const std::vector<real> untouched = untouched_row();
  const std::vector<real> zeros(width());
  const auto is_untouched = [&](std::size_t row) {
    return at_[row] == 0 && !untouched.empty() &&
           std::ranges::all_of(row_at(row).numbers, [&](const real* numbers) {
             return numbers == nullptr ||
                    std::memcmp(numbers, zeros.data(), width() * sizeof(real)) == 0;
           });
  };
  visit_rows(at_.size(), [&](std::size_t row, Owed& owed) {
    if (is_untouched(row)) {
      std::ranges::copy(untouched, out + row * width());
      return std::uint64_t{0};
    }
    const std::uint64_t replayed = catch_up(row_at(row));
    copy_row(row_at(row), owed, out + row * width());
    return replayed;
  });
}

template <class Rule>
void LazyTable<Rule>::write_rows(std::span<const std::int32_t> ids, const real* values) {
  if (file_ != nullptr) {
    prepare_file(ids);
  }
  visit_rows(ids.size(), [&](std::size_t i, Owed& owed) {
    const Row row = row_at(static_cast<std::size_t>(ids[i]));
    const std::uint64_t replayed = catch_up(row);
    settle(row, owed);
    std::copy_n(values + i * width(), width(), row.numbers[0]);
    return replayed;
  });
}

template <class Rule>
Tensor LazyTable<Rule>::release() {
  if (file_ == nullptr) settle_all();
  lent_ = false;
  history_.clear();
  return std::move(table_);
}

}  // namespace rowgrad
