#pragma once

// A parameter with its optimizer state, and the rows whose updates are deferred.

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

/// From the first deferred step on, each step changes only the rows that have a gradient. For the
/// others it is kept in a history, and they become stale. SlotStore has the step that each row is
/// of, counted in the history (not from the optimizer's first step): the steps after it are the
/// row's deferred steps. Reading a row makes them:
///
/// - Steps without a closed form are replayed on the stored row, which is then of a later step.
/// - A closed form is applied to the copy that is read, not to the stored row. So the bits of a run
///   do not depend on when rows are read, for example for a checkpoint or an evaluation.
///
/// Before anything changes the whole table (a dense gradient, Parameter::mutable_values), all rows
/// are brought up to date, and no updates are deferred any more.
///
/// Nothing passes over all rows of a table in a file: what would have to is refused, and its
/// history grows as long as steps differ.
///
/// Where all rows are brought up to date, rows without a record (RowView::has_record) are left out
/// if the deferred steps do not change them: momentum does not, weight decay does.
class OptimizedParameter final : public DeferredUpdates,
                                 public std::enable_shared_from_this<OptimizedParameter> {
 public:
  /// The parameter and the names of the rule must outlive it, except for a parameter that was
  /// destroyed: see forget(). `loops` are new.
  OptimizedParameter(Parameter& parameter, const RuleFacts& rule, std::unique_ptr<RuleLoops> loops);

  /// The parameter; null once it was destroyed.
  const Parameter* parameter() const { return parameter_; }

  /// Call before the parameter is destroyed.
  void forget() noexcept;

  /// Call before the optimizer is destroyed. Deferred updates then stay with the parameter alone.
  void abandon() noexcept;

  /// Plans a step with the gradient of the parameter; reads rows of a file. Throws
  /// std::invalid_argument for a step that would pass over all rows of a file, std::logic_error for
  /// rows with deferred updates that only a saved state knows, and std::runtime_error for damage.
  StepPlan plan() const;

  /// Makes the step of the last plan(). Fails only if memory or the disk does.
  void step(const StepPlan& plan);

  /// See Optimizer::decay_without_gradient.
  std::optional<double> decay_without_gradient() const;

  /// See Optimizer::changes_without_gradient and Optimizer::watch_next_step.
  bool changes_without_gradient() const;
  void watch_next_step(const std::shared_ptr<RowWatcher>& watcher);

  /// See Optimizer::rows_visited.
  std::uint64_t rows_visited() const { return rows_visited_; }

  /// Returns the number of steps ("step"), the slots, and while updates are deferred ("lazy") what
  /// SlotStore::save_rows puts, the history, and a checksum of the values as they are read.
  StateDict state_dict() const;

  /// Returns all names that such a state may have.
  static std::vector<std::string> names(const RuleFacts& rule);

  /// Returns a new object with such a state. If the values of the parameter follow, the state is
  /// only checked. Otherwise the values must have its checksum, and each row, brought up to date,
  /// is compared with the parameter. If any bit differs (for example on another processor), the
  /// row of the parameter is kept, and only its slots are brought up to date. States of version
  /// 0.2.0 have no checksum.
  std::shared_ptr<OptimizedParameter> loaded(const StateDict& state, bool values_follow) const;

  /// Puts the deferred updates that loaded() read in place of the parameter's.
  void commit() noexcept;

 private:
  StepPlan next_plan() const;
  bool has_deferred() const { return parameter_ != nullptr && parameter_->deferred() == this; }
  void for_parts(const RowRange& all, const auto& loop);
  RowRange all_of(const RowView& rows) const { return {rows, nullptr, 0, parameter_->shape()[0]}; }
  std::vector<std::int32_t> changed_rows(std::span<const std::int32_t> ids, const auto& is_due);
  void bring_up_to_date(std::span<const std::int32_t> ids, std::uint64_t since);
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
  std::unique_ptr<RuleLoops> loops_;  // with the history of deferred steps
  std::uint64_t steps_ = 0;           // made so far, also with dense gradients
  bool is_abandoned_ = false;         // see abandon()
  bool is_loaded_ = false;            // true if commit() has deferred updates to put in place
  std::vector<std::weak_ptr<RowWatcher>> watchers_;  // of the next step
  std::atomic<std::uint64_t> rows_visited_ = 0;
};

}  // namespace rowgrad
