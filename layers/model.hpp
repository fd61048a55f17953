#pragma once

// What can be trained and evaluated: a layer with a loss. Wrong arguments throw
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
  double loss = 0;            // the losses, each times its weight
  double weight = 0;          // the weights
  std::size_t correct = 0;    // how many targets the model gets right
  std::size_t predicted = 0;  // how many it gets right or wrong
};

/// A layer that has a loss of a batch: what a TrainingRun trains.
class Model : public Layer {
 public:
  /// The mean loss of the targets of a batch, a scalar. It is not asked for if no target counts.
  virtual Variable loss(Tape& tape, const Batch& batch) = 0;

  /// The number of unmasked targets of the batch, or the sum of their weights, by which that mean
  /// divides. The weights of the parts of a batch add up to its weight. The default is the number
  /// of rows.
  virtual double loss_weight(const Batch& batch) const;

  /// Returns the sums for evaluate(). The default has the loss alone. A Classifier also counts
  /// correct targets if the accuracy is wanted.
  virtual BatchScore score(Tape& tape, const Batch& batch, bool accuracy);

  /// Returns the rows that loss() and score() will look up for this batch. A run reads rows in
  /// files ahead, and fetches rows that this process does not have. The default is
  /// none. Models with sharded tables must override it.
  virtual std::vector<TableLookup> lookups(const Batch& batch) const;
};

/// A model that predicts a class for each target. Its loss is the mean cross-entropy, in nats; its
/// weight is the total weight of the targets. Logits, targets and classes are all that a model has
/// to say; loss, weight, evaluation and accuracy follow.
class Classifier : public Model {
 public:
  /// The logits [..., classes] for the targets of a batch.
  virtual Variable logits(Tape& tape, const Batch& batch) = 0;

  /// The class of each row of the logits: [...].
  virtual const Ids& targets(const Batch& batch) const = 0;

  virtual std::size_t classes() const = 0;  // number of logits of a target

  /// cross_entropy(logits(tape, batch), targets(batch), options). Override it to compute the same
  /// without all logits: see Linear::cross_entropy().
  virtual Variable loss_with(Tape& tape, const Batch& batch, const CrossEntropyOptions& options);

  /// Sets which targets are unmasked, and class weights. By default, all targets except
  /// kIgnoredTarget count once. Requires a mean without target_weights, as batches have none.
  void set_loss(CrossEntropyOptions options);

  Variable loss(Tape& tape, const Batch& batch) final { return loss_with(tape, batch, loss_); }
  double loss_weight(const Batch& batch) const final;
  BatchScore score(Tape& tape, const Batch& batch, bool accuracy) final;

 private:
  CrossEntropyOptions loss_;
};

/// Counts into `score` how many of the targets have the largest of the logits [..., classes] of
/// their row, without those that are `ignored`.
void count_correct(BatchScore& score, const Tensor& logits, const Ids& targets,
                   std::optional<std::int32_t> ignored = std::nullopt);

}  // namespace rowgrad
