#pragma once

// Models: layers with a loss, which can be trained and evaluated. Invalid arguments throw
// std::invalid_argument.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/ops/table_placement.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// The losses and predictions of a batch, summed over its targets.
struct BatchScore {
  double loss = 0;            // sum of the losses, each times the weight of its target
  double weight = 0;          // sum of the targets' weights
  std::size_t correct = 0;    // targets predicted correctly
  std::size_t predicted = 0;  // targets compared with predictions
};

/// A layer with a loss, which a TrainingRun can train.
class Model : public Layer {
 public:
  /// Returns the mean loss of the targets of a batch, a scalar. Not called if loss_weight() is 0.
  virtual Variable loss(Tape& tape, const Batch& batch) = 0;

  /// Returns the divisor of the mean loss: the number of unmasked targets, or the sum of their
  /// weights. The weights of slices must add up to their batch's weight. The default is the number
  /// of rows.
  virtual double loss_weight(const Batch& batch) const;

  /// Returns the sums for evaluate(). The default ignores `accuracy`. A Classifier also counts
  /// correct predictions if `accuracy` is true.
  virtual BatchScore score(Tape& tape, const Batch& batch, bool accuracy);

  /// Returns the rows that loss() and score() will look up for this batch. A TrainingRun prefetches
  /// rows of table files, and fetches rows that this process does not have. The default returns
  /// none. Models with sharded tables must override lookups().
  virtual std::vector<TableLookup> lookups(const Batch& batch) const;
};

/// A model that predicts a class for each target. Its loss is the mean cross-entropy in nats, and
/// loss_weight() the total weight of the targets. A derived class supplies logits, targets and the
/// number of classes, from which the loss follows.
class Classifier : public Model {
 public:
  /// Returns the logits [..., classes] for the targets of a batch.
  virtual Variable logits(Tape& tape, const Batch& batch) = 0;

  /// Returns the true class for each row of logits: [...].
  virtual const Ids& targets(const Batch& batch) const = 0;

  virtual std::size_t classes() const = 0;  // returns the number of logits for each target

  /// Returns cross_entropy(logits(tape, batch), targets(batch), options). An override can compute
  /// this without storing all logits: see Linear::cross_entropy().
  virtual Variable loss_with(Tape& tape, const Batch& batch, const CrossEntropyOptions& options);

  /// Sets the ignored target, the class weights and label smoothing, which score() also uses, so
  /// validation losses include them. By default, all targets except kIgnoredTarget have weight 1.
  /// Requires reduction kMean and no target_weights.
  void set_loss(CrossEntropyOptions options);

  Variable loss(Tape& tape, const Batch& batch) final { return loss_with(tape, batch, loss_); }
  double loss_weight(const Batch& batch) const final;
  BatchScore score(Tape& tape, const Batch& batch, bool accuracy) final;

 private:
  CrossEntropyOptions loss_;
};

/// Adds the number of targets to `score.predicted`, and the number of targets whose logit is the
/// largest of their row [..., classes] to `score.correct`. Skips targets equal to `ignored`.
void count_correct(BatchScore& score, const Tensor& logits, const Ids& targets,
                   std::optional<std::int32_t> ignored = std::nullopt);

}  // namespace rowgrad
