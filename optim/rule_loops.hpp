#pragma once

// The loops of a rule over rows: the current step, and the deferred steps of stale rows.

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
#include <utility>
#include <vector>

#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/optim/deferred_steps.hpp>
#include <rowgrad/optim/row_watcher.hpp>
#include <rowgrad/optim/slots/slot_store.hpp>

namespace rowgrad {

/// The properties of a rule that are the same in all steps.
struct RuleFacts {
  std::string_view name;                    // Rule::kName
  std::span<const std::string_view> slots;  // Rule::kSlots
  std::size_t members;                      // the number of coefficients of a step
};

/// The next step of one parameter, after all checks.
struct StepPlan {
  std::uint64_t step;      // step number, from 1
  SlotStore::Needs slots;  // slots that the step uses
  RuleMembers rule;        // coefficients of the step
  bool defers = false;     // true if the step is deferred for rows without a gradient
  bool continues = true;   // true if the closed form can be combined with the history
};

/// Interface to the history and the loops of any rule; RuleLoopsOf<Rule> implements it.
class RuleLoops {
 public:
  RuleLoops() = default;
  RuleLoops(const RuleLoops&) = delete;
  RuleLoops& operator=(const RuleLoops&) = delete;
  virtual ~RuleLoops() = default;

  /// Returns new loops with the same options and an empty history.
  virtual std::unique_ptr<RuleLoops> fresh() const = 0;

  /// Returns the slots that the options need.
  virtual SlotStore::Needs needs() const = 0;

  /// Plans a step with the current options.
  virtual StepPlan plan(const StepNumber& number) const = 0;

  /// Returns how a planned step is deferred for rows without a gradient.
  virtual Deferral deferral(const StepPlan& plan) const = 0;

  /// Makes a planned step without gradient. values[0] is the value; its state follows.
  virtual void step_without_gradient(const StepPlan& plan, double* values) const = 0;

  /// Returns the deferred steps as runs of equal steps.
  virtual const StepRuns& history() const = 0;
  /// Returns the data members of a run's rule.
  virtual RuleMembers members(std::size_t run) const = 0;

  /// Adds `count` steps of a rule to the history.
  virtual void append(const RuleMembers& rule, std::uint64_t count) = 0;

  /// Drops all runs.
  virtual void clear() = 0;
  /// Drops the first `count` runs (see StepHistory).
  virtual void drop_runs(std::size_t count) = 0;

  // The loops return the number of updated or copied rows plus the number of replayed steps.

  /// Applies the deferred steps of rows (none if RowView::steps is null), then the planned step.
  /// The rows are then at step `after`. Calls the watchers for each row.
  virtual std::uint64_t step(const RowRange& range, const real* gradients, const StepPlan& plan,
                             std::uint64_t after, RowWatchers watchers) const = 0;

  /// Replays the deferred steps that have no closed form, then applies the others to the rows at a
  /// step before `closed_before`. Rows without a record (RowView::has_record) are skipped if
  /// deferred steps do not change them; otherwise, only their values change.
  virtual std::uint64_t apply(const RowRange& range, std::uint64_t closed_before) const = 0;

  /// Copies rows, up to date: out[i] = row i of the range, plus row i % n of the n rows of `added`
  /// unless `added` is null. Stored rows change only if RowView::copied_by is null and steps must
  /// be replayed. Requires in this case: the rows have records and occur once in the range.
  virtual std::uint64_t copy(const RowRange& range, real* out, const Tensor* added) const = 0;
};

template <class Rule>
class RuleLoopsOf final : public RuleLoops {
 public:
  using Options = typename Rule::Options;

  /// Shares the options with the optimizer, which may change them.
  explicit RuleLoopsOf(std::shared_ptr<const Options> options) : options_(std::move(options)) {}

  std::unique_ptr<RuleLoops> fresh() const override {
    return std::make_unique<RuleLoopsOf>(options_);
  }
  SlotStore::Needs needs() const override {
    SlotStore::Needs needs;
    std::ranges::copy(Rule::uses(*options_), needs.uses.begin());
    for (std::size_t i = 0; i < Rule::kSlots.size(); ++i)
      needs.starts[i] = Rule::start(*options_, i);
    return needs;
  }
  StepPlan plan(const StepNumber& number) const override {
    const Rule rule(*options_, number);
    const std::size_t runs = history_.runs().size();
    return {.step = number.step,
            .slots = needs(),
            .rule = members_of(rule),
            .defers = options_->rows == RowUpdates::kExact && rule.deferral() != Deferral::kNothing,
            .continues = runs == 0 || rule.continues(history_.rule(runs - 1))};
  }
  Deferral deferral(const StepPlan& plan) const override {
    return plan.defers ? rule_with<Rule>(plan.rule).deferral() : Deferral::kNothing;
  }
  void step_without_gradient(const StepPlan& plan, double* values) const override {
    History::step_without_gradient(rule_with<Rule>(plan.rule), values);
  }

  const StepRuns& history() const override { return history_; }
  RuleMembers members(std::size_t run) const override { return members_of(history_.rule(run)); }
  void append(const RuleMembers& rule, std::uint64_t count) override {
    history_.append(rule_with<Rule>(rule), count);
  }
  void clear() override { history_.clear(); }
  void drop_runs(std::size_t count) override { history_.drop_runs(count); }

  std::uint64_t step(const RowRange& range, const real* gradients, const StepPlan& plan,
                     std::uint64_t after, RowWatchers watchers) const override {
    const Rule rule = rule_with<Rule>(plan.rule);
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    const bool may_be_stale = range.rows.steps != nullptr;
    std::optional<DeferredSteps<Rule>> deferred;
    if (may_be_stale) deferred.emplace(history_, history_.steps(), range.end - range.begin);
    std::vector<real> before(watchers.empty() ? 0 : width);
    std::uint64_t visited = range.end - range.begin;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      prefetch(range, i, ahead);
      const RowOf row = range.rows.row<kArrays>(range[i]);
      const real* values = gradients + i * width;
      bool is_stale = false;
      if (may_be_stale && history_.has_replay(*row.step)) visited += replay(row, width);
      if (!watchers.empty()) {
        if (may_be_stale) apply_closed(row, *deferred, width);
        copy_short(row.arrays[0], width, before.data());
      }
      if (may_be_stale) {
        is_stale = deferred->for_each_piece(*row.step, [&](const auto piece, auto last) {
          change_values<Rule>(width, row.arrays, values,
                              [&piece, rule, last](Vectors& x, const Simd& g) {
                                x = piece(x);
                                if (last) update(rule, x, g);
                              });
        });
        *row.step = after;
      }
      if (!is_stale)
        change_values<Rule>(width, row.arrays, values,
                            [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
      for (const auto& watcher : watchers) watcher->row_changed(i, before.data(), row.arrays[0]);
    }
    return visited;
  }

  std::uint64_t apply(const RowRange& range, std::uint64_t closed_before) const override {
    DeferredSteps<Rule> deferred(history_, history_.steps(), range.end - range.begin);
    std::uint64_t visited = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      if (!changes(range, i)) continue;
      RowOf row = range.rows.row<kArrays>(range[i]);
      std::uint64_t first_step = 0;
      // Record 0 is read-only, so a row without a record gets no slots and a local step.
      if (!range.rows.has_record(range[i])) row = {{row.arrays[0]}, &first_step};
      // Replay first: otherwise, the row's step would depend on whether the row was read.
      if (history_.has_replay(*row.step)) visited += replay(row, range.rows.width);
      if (*row.step >= closed_before) continue;
      apply_closed(row, deferred, range.rows.width);
      ++visited;
    }
    return visited;
  }

  std::uint64_t copy(const RowRange& range, real* out, const Tensor* added) const override {
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    DeferredSteps<Rule> deferred(history_, history_.steps(), range.end - range.begin);
    RowCopy copy;
    std::uint64_t visited = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      ++visited;
      prefetch(range, i, ahead);
      const RowOf row = range.rows.readable<kArrays>(
          range[i], [&](std::uint64_t step) { return history_.has_replay(step); }, copy);
      if (history_.has_replay(*row.step)) visited += replay(row, width);
      real* const to = out + i * width;
      const real* const now =
          changes(range, i) ? up_to_date(row, deferred, width, to) : row.arrays[0];
      if (added != nullptr)
        kernels::map_span(width, to, std::plus<>(), now, added->data() + i * width % added->size());
      else if (now != to)
        std::copy_n(now, width, to);
    }
    return visited;
  }

 private:
  using Simd = kernels::Simd;
  using History = StepHistory<Rule>;
  using Vectors = RuleVectors<Rule>;
  static constexpr std::size_t kArrays = kArraysOf<Rule>;
  using RowOf = StoredRow<kArrays>;

  // Copies a row. std::copy_n would take as long as the step of a short row.
  static void copy_short(const real* from, std::size_t count, real* to) {
    constexpr std::size_t kLanes = kernels::kLanes;
    if (count < kLanes) return void(std::copy_n(from, count, to));
    for (std::size_t i = 0; i + kLanes < count; i += kLanes)
      Simd::load_unaligned(from + i).store_unaligned(to + i);
    Simd::load_unaligned(from + count - kLanes).store_unaligned(to + count - kLanes);
  }

  // Prefetches row i + ahead, and the record index of row i + 2 · ahead.
  static void prefetch(const RowRange& range, std::size_t i, std::size_t ahead) {
    if (i + 2 * ahead < range.end) range.rows.prefetch_record_number(range[i + 2 * ahead]);
    if (i + ahead < range.end) range.rows.template prefetch<kArrays>(range[i + ahead]);
  }

  // Returns false if deferred steps do not change row i of the range.
  bool changes(const RowRange& range, std::size_t i) const {
    return range.rows.has_record(range[i]) || history_.moves_without_state();
  }

  // Returns the up-to-date values of a row: if the row is stale, writes them to `to` and returns
  // `to`, else returns the stored row. Requires: all deferred steps have a closed form.
  [[gnu::always_inline]] static const real* up_to_date(const RowOf& row,
                                                       DeferredSteps<Rule>& deferred,
                                                       std::size_t width, real* to) {
    auto arrays = row.arrays;
    deferred.for_each_piece(*row.step, [&](const auto piece, auto) {
      read_values<Rule>(width, arrays,
                        [&](const Vectors& x, const auto& put) { put(piece(x)[0], to); });
      arrays[0] = to;  // input of the next piece
    });
    return arrays[0];
  }

  // Applies the deferred steps of a row until all later steps have a closed form. Never inlined:
  // otherwise the compiler might fuse multiplications and additions for one caller but not for
  // another, and the results would differ.
  [[gnu::noinline]] std::uint64_t replay(const RowOf& row, std::size_t width) const {
    std::uint64_t& step = *row.step;
    std::uint64_t replayed = 0;
    while (history_.has_replay(step)) {
      DeferredSteps<Rule> deferred(history_, history_.closed_until(step), 1);
      apply_closed(row, deferred, width);
      // Makes up to 8 steps at once, with the values in registers.
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

  // Applies the steps up to deferred.to(). Requires: each step has a closed form.
  static void apply_closed(const RowOf& row, DeferredSteps<Rule>& deferred, std::size_t width) {
    deferred.for_each_piece(*row.step, [&](const auto piece, auto) {
      change_values<Rule>(width, row.arrays, nullptr,
                          [&](Vectors& x, const Simd&) { x = piece(x); });
    });
    *row.step = deferred.to();
  }

  std::shared_ptr<const Options> options_;
  History history_;
};

}  // namespace rowgrad
