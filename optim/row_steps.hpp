#pragma once

// The steps of one parameter under a rule: those that its rows may have missed, and that which is
// due. The loops here are all that is compiled for each rule.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/row_store.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/optim/missed_steps.hpp>

namespace rowgrad {

/// Rows to work on, on this thread: rows ids[begin] … ids[end − 1], or begin … end − 1 without ids.
struct RowRange {
  const RowView& rows;      // where the rows of the table are
  const std::int32_t* ids;  // row numbers; null for all rows from begin to end
  std::size_t begin, end;   // places in ids, or row numbers if that is null

  std::size_t operator[](std::size_t i) const {  // the row at place i
    return ids != nullptr ? static_cast<std::size_t>(ids[i]) : i;
  }
};

/// What is the same in all steps of a rule.
struct RuleFacts {
  std::string_view name;                     // Rule::kName
  std::span<const std::string_view> states;  // Rule::kStates
  std::array<bool, kMostStates> always;      // the states that the default options use
  std::size_t members;                       // the number of its coefficients
};

/// What may be asked of a rule without knowing which it is. RowStepsOf<Rule> implements it.
class RowSteps {
 public:
  RowSteps() = default;
  RowSteps(const RowSteps&) = delete;
  RowSteps& operator=(const RowSteps&) = delete;
  virtual ~RowSteps() = default;

  /// Another one with the same options, and without steps.
  virtual std::unique_ptr<RowSteps> fresh() const = 0;

  /// Which states the options ask for, and whether they are for RowUpdates::kExact.
  virtual RowStates::Needs needs() const = 0;
  virtual bool is_exact() const = 0;

  /// Makes the rule of the step that is due, from the options as they are now.
  virtual void begin(const StepNumber& number) = 0;

  /// What that step does without a gradient, in words and to a value with the states that follow
  /// it; and whether it has a closed form together with the steps before.
  virtual Idle idle() const = 0;
  virtual void idle_step(double* values) const = 0;
  virtual bool continues() const = 0;

  /// The step itself: for values begin … end − 1 of a tensor, and for rows that missed none.
  virtual void step_values(const RowView& values, std::size_t begin, std::size_t end,
                           const real* gradients) const = 0;
  virtual void step_rows(const RowRange& range, const real* gradients) const = 0;

  /// The history of steps that rows may have missed (see StepHistory). append() adds the step that
  /// is due or, from a saved state, steps of a rule with these members.
  virtual std::uint64_t steps() const = 0;
  virtual std::size_t runs() const = 0;
  virtual std::uint64_t last_of(std::size_t run) const = 0;
  virtual bool has_replay(std::uint64_t from) const = 0;
  virtual std::vector<real> members(std::size_t run) const = 0;
  virtual void append() = 0;
  virtual void append(const real* members, std::uint64_t count) = 0;
  virtual void forget(std::size_t runs) = 0;
  virtual void clear() = 0;

  // Those below return how many rows they changed or copied, plus one for each replayed step.

  /// The steps that rows missed, and then the one that is due; from then on they are of step
  /// `after`.
  virtual std::uint64_t catch_up_and_step(const RowRange& range, const real* gradients,
                                          std::uint64_t after) const = 0;
  /// The steps that rows missed: first until all that remain have a closed form, and then all, if
  /// the row is still of a step before `since`.
  virtual std::uint64_t apply(const RowRange& range, std::uint64_t since) const = 0;
  /// out[i] = row i of the range, with the steps that it missed; stored rows keep their bits. Steps
  /// without closed form must have been replayed where rows may be changed when they are read
  /// (RowView::copied_by).
  virtual std::uint64_t copy(const RowRange& range, real* out) const = 0;
};

/// That of one rule.
template <class Rule>
class RowStepsOf final : public RowSteps {
 public:
  using Options = typename Rule::Options;

  /// Borrows the options, which may change.
  explicit RowStepsOf(const Options& options) : options_(options) {}

  std::unique_ptr<RowSteps> fresh() const override {
    return std::make_unique<RowStepsOf>(options_);
  }

  // --- The step that is due ----------------------------------------------------------------------

  RowStates::Needs needs() const override {
    RowStates::Needs needs;
    std::ranges::copy(Rule::uses(options_), needs.uses.begin());
    for (std::size_t i = 0; i < Rule::kStates.size(); ++i)
      needs.starts[i] = Rule::start(options_, i);
    return needs;
  }
  bool is_exact() const override { return options_.rows == RowUpdates::kExact; }

  void begin(const StepNumber& number) override { due_ = Rule(options_, number); }
  Idle idle() const override { return due_->idle(); }
  void idle_step(double* values) const override { History::idle_step(*due_, values); }
  bool continues() const override {
    return history_.runs().empty() || due_->continues(history_.runs().back().rule);
  }

  void step_values(const RowView& values, std::size_t begin, std::size_t end,
                   const real* gradients) const override {
    const Rule rule = *due_;
    change_values<Rule>(end - begin, values.at<kArrays>(begin), gradients + begin,
                        [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
  }

  void step_rows(const RowRange& range, const real* gradients) const override {
    const Rule rule = *due_;
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    for (std::size_t i = range.begin; i < range.end; ++i) {
      prefetch(range, i + ahead);
      change_values<Rule>(width, range.rows.arrays<kArrays>(range[i]), gradients + i * width,
                          [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
    }
  }

  // --- The steps that rows missed ----------------------------------------------------------------

  std::uint64_t steps() const override { return history_.steps(); }
  std::size_t runs() const override { return history_.runs().size(); }
  std::uint64_t last_of(std::size_t run) const override { return history_.runs()[run].end; }
  bool has_replay(std::uint64_t from) const override { return history_.has_replay(from); }
  std::vector<real> members(std::size_t run) const override {
    const auto members = std::bit_cast<RuleMembers<Rule>>(history_.runs()[run].rule);
    return {members.begin(), members.end()};
  }
  void append() override { history_.append(*due_); }
  void append(const real* members, std::uint64_t count) override {
    RuleMembers<Rule> all;
    std::copy_n(members, all.size(), all.begin());
    history_.append(std::bit_cast<Rule>(all), count);
  }
  void forget(std::size_t runs) override { history_.forget(runs); }
  void clear() override { history_ = {}; }

  std::uint64_t catch_up_and_step(const RowRange& range, const real* gradients,
                                  std::uint64_t after) const override {
    const Rule rule = *due_;
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    MissedSteps<Rule> missed(history_, history_.steps());
    std::uint64_t visited = range.end - range.begin;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      prefetch(range, i + ahead);
      const RowOf row = range.rows.row<kArrays>(range[i]);
      visited += replay(row, width);
      const real* values = gradients + i * width;
      const bool late = missed.for_each_piece(*row.step, [&](const auto& piece, auto last) {
        change_values<Rule>(width, row.arrays, values,
                            [rule, piece, last](Vectors& x, const Simd& g) {
                              x = piece(x);
                              if (last) update(rule, x, g);
                            });
      });
      if (!late)
        change_values<Rule>(width, row.arrays, values,
                            [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
      *row.step = after;
    }
    return visited;
  }

  std::uint64_t apply(const RowRange& range, std::uint64_t since) const override {
    MissedSteps<Rule> missed(history_, history_.steps());
    std::uint64_t visited = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const RowOf row = range.rows.row<kArrays>(range[i]);
      // First, or the step that the row is of would depend on whether it was read before.
      visited += replay(row, range.rows.width);
      if (*row.step >= since) continue;
      apply(row, missed, range.rows.width);
      ++visited;
    }
    return visited;
  }

  std::uint64_t copy(const RowRange& range, real* out) const override {
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    MissedSteps<Rule> missed(history_, history_.steps());
    RowCopy copy;
    std::uint64_t visited = range.end - range.begin;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      prefetch(range, i + ahead);
      const RowOf row = range.rows.readable<kArrays>(
          range[i], [&](std::uint64_t step) { return history_.has_replay(step); }, copy);
      visited += replay(row, width);
      real* const to = out + i * width;
      // Of a large table, most rows may never have been touched: what is alike stays alike.
      if (range.ids == nullptr && i > range.begin && is_like_row_before(row, range.rows)) {
        std::copy_n(to - width, width, to);
        continue;
      }
      auto arrays = row.arrays;
      const bool late = missed.for_each_piece(*row.step, [&](const auto& piece, auto) {
        read_values<Rule>(width, arrays,
                          [piece, to](const Vectors& x, const auto& put) { put(piece(x)[0], to); });
        arrays[0] = to;  // where the next piece goes on
      });
      if (!late) std::copy_n(arrays[0], width, to);
    }
    return visited;
  }

 private:
  using Simd = kernels::Simd;
  using History = StepHistory<Rule>;
  using Vectors = RuleVectors<Rule>;
  static constexpr std::size_t kArrays = kArraysOf<Rule>;
  using RowOf = Row<kArrays>;

  static bool is_like_row_before(const RowOf& row, const RowView& rows) {
    return *row.step == *(row.step - rows.step_stride) &&
           std::ranges::all_of(row.arrays, [&](const real* values) {
             return values == nullptr ||
                    std::memcmp(values, values - rows.stride, rows.width * sizeof(real)) == 0;
           });
  }

  // Row i of the range, if it has so many, with its states.
  static void prefetch(const RowRange& range, std::size_t i) {
    if (i >= range.end) return;
    for (const real* array : range.rows.arrays<kArrays>(range[i]))
      if (array != nullptr) kernels::prefetch_row(array, range.rows.width);
  }

  // Makes steps until all that a row missed after them have a closed form. Never inlined: otherwise
  // the compiler might fuse multiplications and additions in one place but not in another, and the
  // bits would depend on the caller.
  [[gnu::noinline]] std::uint64_t replay(const RowOf& row, std::size_t width) const {
    const auto& runs = history_.runs();
    std::uint64_t& step = *row.step;
    std::uint64_t replayed = 0;
    while (history_.has_replay(step)) {
      MissedSteps<Rule> missed(history_, history_.closed_until(step));
      apply(row, missed, width);
      // Several steps at once, with the values in registers.
      std::size_t run = history_.run_of(step + 1);
      std::array<const Rule*, 8> rules;
      std::size_t count = 0;
      do {
        rules[count++] = &runs[run].rule;
        if (++step == runs[run].end) ++run;
      } while (count < rules.size() && history_.has_replay(step) &&
               runs[run].idle == Idle::kReplay);
      change_values<Rule>(width, row.arrays, nullptr, [&](Vectors& x, const Simd& zero) {
        for (std::size_t i = 0; i < count; ++i) update(*rules[i], x, zero);
      });
      replayed += count;
    }
    return replayed;
  }

  // Steps up to missed.to(), which must all have a closed form.
  static void apply(const RowOf& row, MissedSteps<Rule>& missed, std::size_t width) {
    missed.for_each_piece(*row.step, [&](const auto& piece, auto) {
      change_values<Rule>(width, row.arrays, nullptr,
                          [piece](Vectors& x, const Simd&) { x = piece(x); });
    });
    *row.step = missed.to();
  }

  const Options& options_;
  std::optional<Rule> due_;
  History history_;
};

}  // namespace rowgrad
