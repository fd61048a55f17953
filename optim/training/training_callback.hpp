#pragma once

// Callbacks of a training run, such as progress lines, checkpoints, samples and row histories. A
// run calls them in the order in which they were added. They must not change the run. An exception
// in a callback ends the run: see TrainingRun::step().

#include <cstddef>
#include <optional>
#include <span>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

class TrainingRun;

/// The result of an evaluation, during or after an epoch (see PeriodicEvaluation). Losses are means
/// and accuracies are shares, as in Score.
struct TrainingRecord {
  std::size_t steps = 0;  // since the start of the run
  std::size_t epoch = 0;  // completed epochs if this record ends one; otherwise 0
  /// At the end of an epoch, the mean over all targets, computed during training. During an epoch,
  /// the mean over PeriodicEvaluation::training.
  double training_loss = 0;
  double speed = 0;                                      // see TrainingRun::speed()
  std::optional<double> validation_loss = std::nullopt;  // nullopt without validation data
  /// Nullopt at the end of an epoch, or if not computed.
  std::optional<double> training_accuracy = std::nullopt;
  std::optional<double> validation_accuracy = std::nullopt;  // nullopt if not computed

  /// Returns false for a record during an epoch.
  bool ends_epoch() const { return epoch > 0; }
};

/// The results of a step.
struct StepResult {
  /// The mean loss over the targets of the step. Nullopt if TrainingRun::step() made no step, but
  /// only added the records that were missing after a callback had stopped the run.
  std::optional<double> loss;
  /// The records added after the step, for an evaluation and for the end of an epoch.
  std::span<const TrainingRecord> records;
};

/// The requirements of a callback.
struct CallbackNeeds {
  /// True if the functions of this callback exchange messages between ranks. If so, every rank must
  /// add the callback, in the same order. Other callbacks run independently on each rank. On the
  /// first rank, they may fetch rows of sharded tables (TrainingRun::tables), except in
  /// should_continue() and after_backward().
  bool all_ranks = false;
  /// True if the callback reads row gradients. If so, each rank gets the gradients of all rows of
  /// sharded tables (ShardedTable::table).
  bool gradients = false;
};

/// An observer of a training run. The default functions do nothing.
class TrainingCallback {
 public:
  TrainingCallback() = default;
  TrainingCallback(const TrainingCallback&) = delete;  // runs keep its address
  TrainingCallback& operator=(const TrainingCallback&) = delete;
  virtual ~TrainingCallback() = default;

  /// Returns the requirements, which must not change during the run.
  virtual CallbackNeeds needs() const { return {}; }

  /// Called before the first step of train(), after each step and after each batch of an
  /// evaluation. The run stops on all ranks if any callback returns false.
  virtual bool should_continue(const TrainingRun&) { return true; }

  /// Called after each `backward`, once for each slice of nonzero weight on this rank. The tape
  /// lists its lookups, but has released its values. The tape is destroyed after the call.
  virtual void after_backward(const TrainingRun&, const Tape&) {}

  /// Called when the gradients of a step are complete, before clipping and the update. run.steps()
  /// does not count this step yet.
  virtual void before_update(const TrainingRun&) {}

  /// Called after each step() that made a step or added records. run.history() contains the
  /// records. Save the run here.
  virtual void after_step(const TrainingRun&, const StepResult&) {}

  /// Called at the end of train() and run_epoch(), even if a callback stopped them.
  virtual void at_end(const TrainingRun&) {}
};

}  // namespace rowgrad
