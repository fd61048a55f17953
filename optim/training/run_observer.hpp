#pragma once

// What watches a training run: progress lines, checkpoints, samples, the history of rows. A run
// calls its observers in the order in which they were added. They change nothing of the run; what
// they throw ends it: see TrainingRun::step().

#include <cstddef>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

class TrainingRun;

/// What a run has found out after some of its steps: at the end of an epoch, or in its course (see
/// EvaluationParts). Losses are means, accuracies shares: see Score.
struct TrainingRecord {
  std::size_t steps = 0;  // since the start of the run
  std::size_t epoch = 0;  // that has ended with them, counted from 1; 0 in the course of one
  /// The mean over all targets of the epoch's steps, as they were trained; in the course of an
  /// epoch, over the loader for training.
  double training_loss = 0;
  double speed = 0;                                      // see TrainingRun::speed()
  std::optional<double> validation_loss = std::nullopt;  // none without validation data
  /// Accuracies, if they are asked for; that of the training data only in the course of an epoch.
  std::optional<double> training_accuracy = std::nullopt;
  std::optional<double> validation_accuracy = std::nullopt;

  bool ends_epoch() const { return epoch > 0; }  // or was made in the course of one
};

/// Derive from it, and override what is of interest.
class RunObserver {
 public:
  RunObserver() = default;
  RunObserver(const RunObserver&) = delete;  // runs know it by its address
  RunObserver& operator=(const RunObserver&) = delete;
  virtual ~RunObserver() = default;

  /// Asked after each step and each batch of an evaluation: false stops the run, on all ranks, if
  /// any rank's observer says so.
  virtual bool goes_on(const TrainingRun&) { return true; }

  /// A tape of the step went backward: one for each shard of each batch that this rank computes,
  /// and one by one. It knows what was looked up, but has no values any more; it ends with the
  /// call.
  virtual void after_backward(const TrainingRun&, const Tape&) {}

  /// The gradients of a step are complete, but neither clipped nor applied: the model is still that
  /// of run.steps() steps.
  virtual void before_update(const TrainingRun&) {}

  /// Returns true if it looks at the gradients of rows: then tables that are sharded over ranks
  /// have the gradients of all their rows (ShardedTable::table).
  virtual bool watches_gradients() const { return false; }

  /// Returns true if all ranks have this observer, in the same place among those that do, and its
  /// functions exchange messages. Functions of others are called on each rank by itself; of the
  /// first rank's, all but goes_on() and after_backward() may fetch rows of sharded tables
  /// (TrainingRun::tables) before they read them.
  virtual bool runs_on_all_ranks() const { return false; }

  /// There is a new record, also in run.history().
  virtual void after_record(const TrainingRun&, const TrainingRecord&) {}

  /// A step was made, and all records that were due then, unless an observer stopped the run in an
  /// evaluation: that is made up for before the next step. `loss` is the mean over the targets of
  /// the step. The place to save the run.
  virtual void after_step(const TrainingRun&, double /*loss*/) {}

  /// train() or run_epoch() ends: the run has ended, or was stopped.
  virtual void at_end(const TrainingRun&) {}
};

}  // namespace rowgrad
