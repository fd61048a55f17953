#pragma once

// A parameter with all that an optimizer keeps for it, and the rows whose updates are deferred.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/optim/rule_loops.hpp>

namespace rowgrad {

/// From the first step that defers updates, each step changes only the rows that have a
/// gradient. The other rows miss the step, which is kept in a history. A row and its states are up
/// to date as of the step that SlotStore has for it. Reading a row makes the steps that it
/// missed:
///
/// - Steps without a closed form are replayed on the stored row, which is then of a later step.
/// - A closed form is applied to the copy that is read, not to the stored row. So the bits of a run
///   do not depend on when rows are read, for example for a checkpoint or an evaluation.
///
/// Before anything changes the whole table (a dense gradient, Parameter::mutable_values), all rows
/// are brought up to date, and nothing is deferred any more.
///
/// Nothing passes over all rows of a table in a file: what would have to is refused, and its
/// history is not shortened. As long as steps differ, it grows by 90 bytes of memory and 52 of a
/// checkpoint in each step of AdamW, by 50 and 32 in one of SGD. At a constant rate, Adam's steps
/// are equal from step 16,600 on (36,700 in double).
///
/// Rows without a record (RowView::has_record) are left out wherever all rows are brought up to
/// date, if the deferred steps do not change them: momentum does not, weight decay does. So that
/// costs the rows that ever had a gradient or, with weight decay, a pass over the table.
class OptimizedParameter final : public DeferredUpdates {
 public:
  /// The parameter and the names of the rule must outlive it, except for a parameter that was
  /// destroyed: see forget(). `steps` are new.
  OptimizedParameter(Parameter& parameter, const RuleFacts& rule, std::unique_ptr<RuleLoops> steps);

  /// Ends what an optimizer keeps for a parameter. If updates are deferred, the parameter takes
  /// over their history and the state. Visits no rows, and no longer uses the options of `steps`.
  static void release(std::unique_ptr<OptimizedParameter> kept) noexcept;

  /// The parameter; null once it was destroyed, which forget() says beforehand.
  const Parameter* parameter() const { return parameter_; }
  void forget() { parameter_ = nullptr; }

  /// Plans a step with the gradient of the parameter. Throws std::invalid_argument for a step that
  /// would take a pass over all rows of a file, std::logic_error for a file whose rows have
  /// deferred updates that only the state of an optimizer knows, and std::runtime_error for damaged
  /// rows.
  StepPlan plan() const;

  /// Makes the step of the last plan(). Fails only if memory or the disk does.
  void step(const StepPlan& plan);

  /// See Optimizer::decay_without_gradient.
  std::optional<double> decay_without_gradient() const;

  /// The number of rows read, updated or brought up to date, plus that of steps replayed on rows.
  std::uint64_t rows_visited() const { return rows_visited_; }

  /// The number of steps ("step"), the states, and while updates are deferred ("lazy") what
  /// SlotStore::save_rows has, the history, and a checksum of the values as they are read.
  Checkpoint state_dict() const;

  /// All names that such a state may have.
  static std::vector<std::string> names(const RuleFacts& rule);

  /// A new object with such a state, which is refused if the parameter's values are not those of
  /// its checksum. If a row, brought up to date, still differs from the parameter's in any bit, as
  /// on another processor, or if the state is of version 0.2.0, the parameter's values are kept,
  /// and only the states of the row are brought up to date. The parameter does not change before
  /// take_over() of the new object, which cannot fail. If its values follow, the state is only
  /// checked.
  std::unique_ptr<OptimizedParameter> loaded(const Checkpoint& state, bool values_follow) const;
  void take_over();

 private:
  bool is_deferred() const { return parameter_ != nullptr && parameter_->deferred() == this; }
  void for_parts(const RowRange& all, const auto& loop);
  RowRange all_of(const RowView& rows) const { return {rows, nullptr, 0, rows_in_pass()}; }
  std::size_t rows_in_pass() const;
  void bring_up_to_date(std::span<const std::int32_t> ids, std::uint64_t since);
  std::size_t half_history() const;
  void step_dense(const Tensor& gradient, const StepPlan& plan);
  void step_rows(const RowGradient& gradient, const StepPlan& plan);
  void shorten_history();
  Checkpoint deferred_state() const;
  void load_deferred(const Checkpoint& state, bool values_follow);

  void read(std::span<const std::int32_t> ids, real* out, const Tensor* added) override;
  void read_all(real* out) override;
  void apply(std::span<const std::int32_t> ids) override;
  void apply_all() override;
  bool is_saved() const override { return saved_version_ == parameter_->version(); }

  Parameter* parameter_;
  const RuleFacts rule_;
  std::unique_ptr<SlotStore> states_;
  std::unique_ptr<RuleLoops> loops_;  // which rows may have missed
  std::uint64_t steps_ = 0;           // made so far, also with dense gradients
  bool released_ = false;             // its optimizer was destroyed: only values are needed
  bool loaded_ = false;               // deferred updates, which take_over() has not announced yet
  std::atomic<std::uint64_t> rows_visited_ = 0;
  mutable std::atomic<std::uint64_t> saved_version_ = ~std::uint64_t{0};  // of the parameter
};

}  // namespace rowgrad
