#pragma once

// The rows of a table whose updates an optimizer has postponed.

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/optim/rule_functions.hpp>

namespace rowgrad {

/// From the first step that postpones updates, each step changes only the rows that have a
/// gradient. The other rows miss the step, which is kept in a history. A row and its states are up
/// to date as of the step that RowStates has for it. Reading a row makes the steps that it missed:
///
/// - Steps without a closed form are replayed on the stored row, which is then of a later step.
/// - A closed form is applied to the copy that is read, not to the stored row. So the bits of a run
///   do not depend on when rows are read, for example for a checkpoint or an evaluation.
///
/// Before anything changes the whole table (a dense gradient, Parameter::mutable_values), all rows
/// are brought up to date, and nothing is pending any more.
///
/// Nothing passes over all rows of a table in a file: what would have to is refused, and its
/// history is not shortened: for each step whose rule differs from the one before, it takes some
/// 50 bytes with SGD and 90 with Adam.
class PendingRows final : public PendingUpdates {
 public:
  /// All must outlive it, but for a parameter that was destroyed: see abandon().
  PendingRows(Parameter& parameter, RowStates& states, const RuleFunctions& rule)
      : parameter_(&parameter), states_(states), rule_(rule), history_(rule) {}
  ~PendingRows();  // applies what is pending

  /// Forgets the parameter, which is being destroyed.
  void abandon() { parameter_ = nullptr; }

  /// Whether updates are pending.
  bool any() const { return parameter_ != nullptr && parameter_->pending() == this; }

  /// A step with the row gradient of the parameter. check_step throws std::logic_error for a file
  /// whose rows have updates that only the state of an optimizer knows, std::invalid_argument for a
  /// rule before which all rows of a file would have to be brought up to date, and
  /// std::runtime_error for damaged rows. After that, step fails only if memory or the disk does.
  /// If `postpones`, the rows without gradient miss the step.
  void check_step(const real* members) const;
  void step(const real* members, bool postpones);

  /// The number of rows read, updated or brought up to date, plus that of steps replayed on rows.
  std::uint64_t rows_visited() const { return rows_visited_; }

  /// While updates are pending: what RowStates::save_rows has, and the history: "rules" [runs,
  /// members], each with its number of "steps" [runs].
  Checkpoint state_dict() const;

  /// All names that such a state may have.
  static constexpr std::array kNames{"values", "values.rows", "values.values", "at",
                                     "steps",  "rules",       "file"};

  /// Loads such a state into a new object, for a parameter that has made `most_steps` steps. If a
  /// row, brought up to date, differs from the parameter's in any bit, the parameter's values are
  /// kept, and only the states of the row, which the caller has already loaded, are brought up to
  /// date. The parameter does not change before take_over(), which cannot fail. If its values
  /// follow, the state is only checked.
  void load(const Checkpoint& state, std::uint64_t most_steps, bool values_follow);
  void take_over();

 private:
  RowRange range(const RowView& rows, std::span<const std::int32_t> ids) const;
  RowRange all_rows(const RowView& rows) const;
  void for_ranges(const RowRange& all, const auto& loop);
  void apply_rows(const RowRange& rows);
  bool changes_when_read() const;
  std::size_t rows_in_pass() const;
  std::size_t half_history() const;
  bool breaks_history(const real* members) const;
  void shorten_history(const RowView& rows);
  std::vector<real> untouched_row(const RowView& rows) const;

  void read(std::span<const std::int32_t> ids, real* out) override;
  void read_all(real* out) override;
  void apply(std::span<const std::int32_t> ids) override;
  void apply_all() override;

  Parameter* parameter_;
  RowStates& states_;
  const RuleFunctions& rule_;
  StepHistory history_;
  bool loaded_ = false;  // but take_over() has not been called yet
  std::atomic<std::uint64_t> rows_visited_ = 0;
};

}  // namespace rowgrad
