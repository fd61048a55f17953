#pragma once

// The steps of one parameter under a rule: those that its rows may have missed, and that which is
// due. The loops here are all that is compiled for each rule.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/parameter_storage.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/optim/deferred_steps.hpp>

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
  std::span<const std::string_view> states;  // Rule::kSlots
  std::size_t members;                       // the number of its coefficients
};

/// What may be asked of the steps of a rule without knowing which it is. RuleLoopsOf<Rule>
/// implements it.
class RuleLoops {
 public:
  RuleLoops() = default;
  RuleLoops(const RuleLoops&) = delete;
  RuleLoops& operator=(const RuleLoops&) = delete;
  virtual ~RuleLoops() = default;

  /// Another one with the same options, and without steps.
  virtual std::unique_ptr<RuleLoops> fresh() const = 0;

  /// Which states the options ask for.
  virtual SlotStore::Needs needs() const = 0;

  /// The step that is due, as to rows without a gradient.
  struct Due {
    Deferral deferral;  // what it does to them: nothing with RowUpdates::kTouchedOnly
    bool continues;     // whether it has a closed form together with the steps in the history
  };

  /// Makes the rule of the step that is due, from the options as they are now.
  virtual Due begin(const StepNumber& number) = 0;

  /// What that rule does, without a gradient, to a value with the states that follow it.
  virtual void step_without_gradient(double* values) const = 0;

  /// The steps that rows may have missed, and the members of a run's rule. append() adds the step
  /// that is due or, from a saved state, steps of a rule with these members; forget() drops the
  /// first runs, half or all of them (see StepHistory).
  virtual const StepRuns& history() const = 0;
  virtual std::vector<real> members(std::size_t run) const = 0;
  virtual void append() = 0;
  virtual void append(const real* members, std::uint64_t count) = 0;
  virtual void forget(std::size_t runs) = 0;

  // Those below return how many rows they changed or copied, plus one for each replayed step.

  /// The steps that rows missed, and then the one that is due; from then on they are of step
  /// `after`. Rows without steps (RowView::steps) missed none.
  virtual std::uint64_t step(const RowRange& range, const real* gradients,
                             std::uint64_t after) const = 0;
  /// The steps that rows missed: first until all that remain have a closed form, and then all, if
  /// the row is still of a step before `since`. Rows without a record (RowView::has_record) are
  /// left out if these steps do not change them; otherwise, only their values change.
  virtual std::uint64_t apply(const RowRange& range, std::uint64_t since) const = 0;
  /// out[i] = row i of the range, with the steps that it missed, plus row i of `added`, modulo
  /// their number, unless that is null; stored rows keep their bits. Steps without closed form must
  /// have been replayed where rows may be changed when they are read (RowView::copied_by). Without
  /// `out`, the stored values are changed, as in apply(), but not their states: for values whose
  /// states nobody needs any more.
  virtual std::uint64_t copy(const RowRange& range, real* out, const Tensor* added) const = 0;
};

/// That of one rule.
template <class Rule>
class RuleLoopsOf final : public RuleLoops {
 public:
  using Options = typename Rule::Options;

  /// Borrows the options, which may change.
  explicit RuleLoopsOf(const Options& options) : options_(options) {}

  std::unique_ptr<RuleLoops> fresh() const override {
    return std::make_unique<RuleLoopsOf>(options_);
  }

  // --- The step that is due ----------------------------------------------------------------------

  SlotStore::Needs needs() const override {
    SlotStore::Needs needs;
    std::ranges::copy(Rule::uses(options_), needs.uses.begin());
    for (std::size_t i = 0; i < Rule::kSlots.size(); ++i)
      needs.starts[i] = Rule::start(options_, i);
    return needs;
  }
  Due begin(const StepNumber& number) override {
    due_ = Rule(options_, number);
    const std::size_t runs = history_.runs().size();
    return {.deferral = options_.rows == RowUpdates::kExact ? due_->deferral() : Deferral::kNothing,
            .continues = runs == 0 || due_->continues(history_.rule(runs - 1))};
  }
  void step_without_gradient(double* values) const override {
    History::step_without_gradient(*due_, values);
  }

  // --- The steps that rows missed ----------------------------------------------------------------

  const StepRuns& history() const override { return history_; }
  std::vector<real> members(std::size_t run) const override {
    const auto members = std::bit_cast<RuleMembers<Rule>>(history_.rule(run));
    return {members.begin(), members.end()};
  }
  void append() override { history_.append(*due_); }
  void append(const real* members, std::uint64_t count) override {
    RuleMembers<Rule> all;
    std::copy_n(members, all.size(), all.begin());
    history_.append(std::bit_cast<Rule>(all), count);
  }
  void forget(std::size_t runs) override { history_.forget(runs); }

  std::uint64_t step(const RowRange& range, const real* gradients,
                     std::uint64_t after) const override {
    const Rule rule = *due_;
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    const bool may_be_stale = range.rows.steps != nullptr;
    std::optional<DeferredSteps<Rule>> missed;
    if (may_be_stale) missed.emplace(history_, history_.steps(), range.end - range.begin);
    std::uint64_t visited = range.end - range.begin;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      prefetch(range, i, ahead);
      const RowOf row = range.rows.row<kArrays>(range[i]);
      const real* values = gradients + i * width;
      bool is_late = false;
      if (may_be_stale) {
        if (history_.has_replay(*row.step)) visited += replay(row, width);
        is_late = missed->for_each_piece(*row.step, [&](const auto piece, auto last) {
          change_values<Rule>(width, row.arrays, values,
                              [&piece, rule, last](Vectors& x, const Simd& g) {
                                x = piece(x);
                                if (last) update(rule, x, g);
                              });
        });
        *row.step = after;
      }
      if (!is_late)
        change_values<Rule>(width, row.arrays, values,
                            [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
    }
    return visited;
  }

  std::uint64_t apply(const RowRange& range, std::uint64_t since) const override {
    DeferredSteps<Rule> missed(history_, history_.steps(), range.end - range.begin);
    std::uint64_t visited = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      if (!changes(range, i)) continue;
      RowOf row = range.rows.row<kArrays>(range[i]);
      std::uint64_t first_step = 0;
      if (!range.rows.has_record(range[i])) row = {{row.arrays[0]}, &first_step};
      // First, or the step that the row is of would depend on whether it was read before.
      if (history_.has_replay(*row.step)) visited += replay(row, range.rows.width);
      if (*row.step >= since) continue;
      apply(row, missed, range.rows.width);
      ++visited;
    }
    return visited;
  }

  std::uint64_t copy(const RowRange& range, real* out, const Tensor* added) const override {
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    DeferredSteps<Rule> missed(history_, history_.steps(), range.end - range.begin);
    RowCopy copy;
    std::uint64_t visited = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      if (out == nullptr && !changes(range, i)) continue;
      ++visited;
      prefetch(range, i, ahead);
      const RowOf row = range.rows.readable<kArrays>(
          range[i], [&](std::uint64_t step) { return history_.has_replay(step); }, copy);
      if (history_.has_replay(*row.step)) visited += replay(row, width);
      real* const to = out != nullptr ? out + i * width : row.arrays[0];
      auto arrays = row.arrays;
      const bool late =
          changes(range, i) && missed.for_each_piece(*row.step, [&](const auto piece, auto) {
            read_values<Rule>(width, arrays,
                              [&](const Vectors& x, const auto& put) { put(piece(x)[0], to); });
            arrays[0] = to;  // where the next piece goes on
          });
      if (added != nullptr)
        kernels::map_span(width, to, std::plus<>(), arrays[0],
                          added->data() + i * width % added->size());
      else if (!late && out != nullptr)
        std::copy_n(arrays[0], width, to);
    }
    return visited;
  }

 private:
  using Simd = kernels::Simd;
  using History = StepHistory<Rule>;
  using Vectors = RuleVectors<Rule>;
  static constexpr std::size_t kArrays = kArraysOf<Rule>;
  using RowOf = StoredRow<kArrays>;

  // The row `ahead` places after i, and first the place of its record.
  static void prefetch(const RowRange& range, std::size_t i, std::size_t ahead) {
    if (i + 2 * ahead < range.end) range.rows.prefetch_record_number(range[i + 2 * ahead]);
    if (i + ahead < range.end) range.rows.template prefetch<kArrays>(range[i + ahead]);
  }

  // Returns false if the steps that the row at place i missed do not change it.
  bool changes(const RowRange& range, std::size_t i) const {
    return range.rows.has_record(range[i]) || history_.moves_without_state();
  }

  // Makes steps until all that a row missed after them have a closed form. Never inlined: otherwise
  // the compiler might fuse multiplications and additions in one place but not in another, and the
  // bits would depend on the caller.
  [[gnu::noinline]] std::uint64_t replay(const RowOf& row, std::size_t width) const {
    std::uint64_t& step = *row.step;
    std::uint64_t replayed = 0;
    while (history_.has_replay(step)) {
      DeferredSteps<Rule> missed(history_, history_.closed_until(step), 1);
      apply(row, missed, width);
      // Several steps at once, with the values in registers.
      std::size_t run = history_.run_of(step + 1);
      std::array<const Rule*, 8> rules;
      std::size_t count = 0;
      do {
        rules[count++] = &history_.rule(run);
        if (++step == history_.runs()[run].end) ++run;
      } while (count < rules.size() && history_.has_replay(step) &&
               history_.runs()[run].deferral == Deferral::kReplay);
      change_values<Rule>(width, row.arrays, nullptr, [&](Vectors& x, const Simd& zero) {
        for (std::size_t i = 0; i < count; ++i) update(*rules[i], x, zero);
      });
      replayed += count;
    }
    return replayed;
  }

  // Steps up to missed.to(), which must all have a closed form.
  static void apply(const RowOf& row, DeferredSteps<Rule>& missed, std::size_t width) {
    missed.for_each_piece(*row.step, [&](const auto piece, auto) {
      change_values<Rule>(width, row.arrays, nullptr,
                          [&](Vectors& x, const Simd&) { x = piece(x); });
    });
    *row.step = missed.to();
  }

  const Options& options_;
  std::optional<Rule> due_;
  History history_;
};

}  // namespace rowgrad
