#pragma once

// What can be trained and evaluated: a layer with a loss. Wrong arguments throw
// std::invalid_argument.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/ops/table_placement.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// What a model makes of a batch, summed over its targets.
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

  /// How many targets of the batch count, or the sum of their weights: what that mean divides by.
  /// Parts of a batch have parts of it. The number of rows, unless a model overrides it.
  virtual double weight(const Batch& batch) const;

  /// What evaluate() sums. Unless a model overrides it, its loss alone. A model for which right and
  /// wrong can be told counts that, too, if the accuracy is wanted: see count_correct().
  virtual BatchScore score(Tape& tape, const Batch& batch, bool accuracy);

  /// Returns the rows that loss() and score() will look up for this batch. A run reads rows in
  /// files ahead, and fetches rows that this process does not have. The default is none: only
  /// models with such tables need to override it.
  virtual std::vector<TableLookup> lookups(const Batch& batch) const;
};

/// Counts into `score` how many of the targets have the largest of the logits [..., classes] of
/// their row, without those that are `ignored`.
void count_correct(BatchScore& score, const Tensor& logits, const Ids& targets,
                   std::optional<std::int32_t> ignored = std::nullopt);

}  // namespace rowgrad
