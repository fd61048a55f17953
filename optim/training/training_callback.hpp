#pragma once

// The callbacks of a training run: progress lines, checkpoints, samples, the history of rows. A run
// calls them in the order in which they were added. They must not change the run. An exception of a
// callback ends the run: see TrainingRun::step().

#include <cstddef>
#include <optional>
#include <span>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

class TrainingRun;

/// The losses of a run after some of its steps: at the end of an epoch, or during it (see
/// PeriodicEvaluation). Losses are means, accuracies shares: see Score.
struct TrainingRecord {
  std::size_t steps = 0;  // since the start of the run
  std::size_t epoch = 0;  // that has ended with them, counted from 1; 0 in the course of one
  /// The mean over all targets of the epoch's steps, as they were trained; in the course of an
  /// epoch, over the loader for training.
  double training_loss = 0;
  double speed = 0;                                      // see TrainingRun::speed()
  std::optional<double> validation_loss = std::nullopt;  // none without validation data
  /// Accuracies, if they are wanted; on the training data only during an epoch.
  std::optional<double> training_accuracy = std::nullopt;
  std::optional<double> validation_accuracy = std::nullopt;

  bool ends_epoch() const { return epoch > 0; }  // or was made in the course of one
};

/// The results of a step.
struct StepResult {
  /// The mean loss over the targets of the step. None if the call of TrainingRun::step() only made
  /// records that were left when a callback stopped the run during an evaluation.
  std::optional<double> loss;
  /// The evaluation and the record of the epoch that were made after the step.
  std::span<const TrainingRecord> records;
};

/// The needs of a callback, which a run provides.
struct CallbackNeeds {
  /// True if every rank has added this callback, in the same order, and its functions exchange
  /// messages. Other callbacks run on each rank by itself. On the first rank, all their functions
  /// except should_continue() and after_backward() may fetch rows of sharded tables
  /// (TrainingRun::tables).
  bool all_ranks = false;
  /// True if it reads row gradients. Sharded tables then have the gradients of all their rows
  /// (ShardedTable::table).
  bool gradients = false;
};

/// Watches a training run. The default functions do nothing.
class TrainingCallback {
 public:
  TrainingCallback() = default;
  TrainingCallback(const TrainingCallback&) = delete;  // runs keep its address
  TrainingCallback& operator=(const TrainingCallback&) = delete;
  virtual ~TrainingCallback() = default;

  /// Returns the same needs during the whole run.
  virtual CallbackNeeds needs() const { return {}; }

  /// Called before the first step of train(), after each step and after each batch of an
  /// evaluation. The run stops on all ranks if any callback returns false.
  virtual bool should_continue(const TrainingRun&) { return true; }

  /// Called after `backward`, once for each slice of each batch that this rank computes. The tape
  /// lists the lookups, but its values are gone. It ends with the call.
  virtual void after_backward(const TrainingRun&, const Tape&) {}

  /// Called when the gradients of a step are complete, before clipping and the update: the model
  /// has made run.steps() steps.
  virtual void before_update(const TrainingRun&) {}

  /// Called after each step, with the records that were due after it, which are also in
  /// run.history(). The place to save the run.
  virtual void after_step(const TrainingRun&, const StepResult&) {}

  /// Called at the end of train() and run_epoch(), whether the run has ended or was stopped.
  virtual void at_end(const TrainingRun&) {}
};

}  // namespace rowgrad
