#pragma once

// What watches a training run: progress lines, checkpoints, samples, the history of rows. A run
// calls its observers in the order in which they were added. They change nothing of the run; what
// they throw ends train(), which can be called again.

#include <cstddef>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/data/data_loader.hpp>

namespace rowgrad {

class TrainingRun;

/// Losses are in nats per target, accuracies shares of the targets: see Score. Both are of those
/// that count.
struct EpochRecord {
  std::size_t epoch = 0;                                     // counted from 1
  std::size_t steps = 0;                                     // since the start of the run
  double training_loss = 0;                                  // mean of its steps
  std::optional<double> validation_loss = std::nullopt;      // none without validation data
  double tokens_per_second = 0;                              // of training, evaluations left out
  std::optional<double> validation_accuracy = std::nullopt;  // if asked for
};

/// The losses of some batches in the course of an epoch.
struct Evaluation {
  std::size_t steps = 0;                                 // since the start of the run
  double training_loss = 0;                              // of the loader for training
  std::optional<double> validation_loss = std::nullopt;  // of that for validation, if there is one
  std::optional<double> training_accuracy = std::nullopt;    // if asked for
  std::optional<double> validation_accuracy = std::nullopt;  // if asked for, with validation data
};

/// Derive from it, and override what is of interest.
class RunObserver {
 public:
  RunObserver() = default;
  RunObserver(const RunObserver&) = delete;  // runs know it by its address
  RunObserver& operator=(const RunObserver&) = delete;
  virtual ~RunObserver() = default;

  /// Whether only the first of several ranks calls it, as is right for one that writes or prints.
  /// One that computes something together with other ranks has to be called, and added, by all.
  virtual bool is_for_first_rank() const { return false; }

  /// Whether it wants whole batches, of which a rank otherwise reads its own rows only.
  virtual bool reads_batches() const { return false; }

  /// Asked after each step and each batch of an evaluation: false stops the run, on all ranks.
  virtual bool goes_on(const TrainingRun&) { return true; }

  /// train() begins.
  virtual void at_begin(const TrainingRun&) {}

  /// A tape of the step went backward: one for each shard of each batch that this rank computes,
  /// and one by one. It knows what was looked up, but has no values any more; it ends with the
  /// call.
  virtual void after_backward(const TrainingRun&, const Tape&) {}

  /// The gradients of a batch have been added; those of a step are complete, but neither clipped
  /// nor applied; the step was made, and `loss` is the mean of its batches.
  virtual void on_batch(const TrainingRun&, const Batch&) {}
  virtual void before_update(const TrainingRun&) {}
  virtual void after_step(const TrainingRun&, double /*loss*/) {}

  /// Losses in the course of an epoch have been computed.
  virtual void after_evaluation(const TrainingRun&, const Evaluation&) {}

  /// All that was due after a step is done; also called when train() goes on after one. The place
  /// to save the run and to try the model.
  virtual void between_steps(const TrainingRun&) {}

  /// An epoch was trained and evaluated.
  virtual void after_epoch(const TrainingRun&, const EpochRecord&) {}

  /// train() ends: the run has ended, or was stopped.
  virtual void at_end(const TrainingRun&) {}
};

}  // namespace rowgrad
