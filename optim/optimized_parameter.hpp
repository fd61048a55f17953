#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/optim/rule_loops.hpp>

namespace rowgrad {

/// A parameter with its optimizer state and deferred steps. A deferred step changes only the rows
/// that have a gradient. The step is added to a history, and all other rows become stale. SlotStore
/// stores the last step applied to each row, counted in the history (not from the optimizer's first
/// step). The later steps of the history are the row's deferred steps. When the row is read,
///
/// - steps without a closed form are replayed on the stored row, which is then at a later step;
/// - a closed form is applied to the copy that is read, not to the stored row. So the bits of a run
///   do not depend on when rows are read, for example for a checkpoint.
///
/// Before anything changes the whole table (a dense gradient, Parameter::mutable_values), all rows
/// are brought up to date, and the history is cleared.
///
/// If the table is in a file, steps are replayed on a copy of the row, operations that would visit
/// all rows throw, and the history is never shortened.
///
/// When all rows are brought up to date, rows without a record (RowView::has_record) are skipped if
/// the deferred steps do not change them (weight decay does).
class OptimizedParameter final : public DeferredUpdates,
                                 public std::enable_shared_from_this<OptimizedParameter> {
 public:
  /// Borrows the parameter (until forget() is called) and the names of the rule. Requires: `loops`
  /// has an empty history.
  OptimizedParameter(Parameter& parameter, const RuleFacts& rule, std::unique_ptr<RuleLoops> loops);

  /// Returns the parameter, or null after forget().
  const Parameter* parameter() const { return parameter_; }

  /// Frees the optimizer state. Call before the parameter is destroyed.
  void forget() noexcept;

  /// Leaves the deferred steps to the parameter. Call before the optimizer is destroyed.
  void abandon() noexcept;

  /// Plans a step with the parameter's gradient. If the table is in a file, reads the rows to
  /// change. Throws std::invalid_argument if the step would visit all rows of a file,
  /// std::logic_error if deferred steps of the rows have not been loaded yet, and
  /// std::runtime_error for damaged rows.
  StepPlan plan() const;

  /// Makes the step of the last plan(). Throws only if memory runs out or the disk fails.
  void step(const StepPlan& plan);

  /// Implements Optimizer::decay_without_gradient.
  std::optional<double> decay_without_gradient() const;

  /// Implements Optimizer::changes_without_gradient.
  bool changes_without_gradient() const;
  /// Implements Optimizer::watch_next_step.
  void watch_next_step(const std::shared_ptr<RowWatcher>& watcher);

  /// Implements Optimizer::rows_visited.
  std::uint64_t rows_visited() const { return rows_visited_; }

  /// Returns the slots and the number of steps ("step"). If steps are deferred, "lazy" has the
  /// result of SlotStore::save_rows, the history, and (in memory) a checksum of up-to-date values.
  StateDict state_dict() const;

  /// Returns all names that a state dict may contain.
  static std::vector<std::string> names(const RuleFacts& rule);

  /// Returns a new object with a saved state. If values_follow is true (the parameter values are
  /// loaded later), the state is only checked. Otherwise, the values must match the state's
  /// checksum, and each saved row, brought up to date, is compared with the parameter's row. If any
  /// bit differs (for example on another processor), the parameter's row is kept; its saved slots
  /// are brought up to date. States of version 0.2.0 have no checksum.
  std::shared_ptr<OptimizedParameter> loaded(const StateDict& state, bool values_follow) const;

  /// Gives the parameter the rows and deferred steps that loaded() read.
  void commit() noexcept;

 private:
  StepPlan next_plan() const;
  bool has_deferred() const { return parameter_ != nullptr && parameter_->deferred() == this; }
  void for_parts(const RowRange& all, const auto& loop);
  RowRange all_of(const RowView& rows) const { return {rows, nullptr, 0, parameter_->shape()[0]}; }
  std::vector<std::int32_t> changed_rows(std::span<const std::int32_t> ids, const auto& is_due);
  void bring_up_to_date(std::span<const std::int32_t> ids, std::uint64_t closed_before);
  std::size_t half_history() const;
  void step_dense(const Tensor& gradient, const StepPlan& plan);
  void step_rows(const RowGradient& gradient, const StepPlan& plan, RowWatchers watchers);
  bool history_is_full() const;
  void shorten_history();
  StateDict deferred_state() const;
  void load_deferred(const StateDict& state, bool values_follow);

  void gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) override;
  void gather_all(real* out) override;
  void apply(std::span<const std::int32_t> ids) override;
  void apply_all() override;

  bool is_abandoned() const override { return is_abandoned_; }

  Parameter* parameter_;
  const RuleFacts rule_;
  std::unique_ptr<SlotStore> slots_;
  std::unique_ptr<RuleLoops> loops_;  // has the history of deferred steps
  std::uint64_t steps_ = 0;           // steps so far, with dense and row gradients
  bool is_abandoned_ = false;         // true after abandon()
  bool is_loaded_ = false;            // true if loaded() read deferred steps for commit()
  std::vector<std::weak_ptr<RowWatcher>> watchers_;  // watchers of the next step
  std::atomic<std::uint64_t> rows_visited_ = 0;
};

}  // namespace rowgrad
