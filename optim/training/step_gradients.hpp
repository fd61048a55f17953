#pragma once

// The gradients of a step: of some batches, each cut into slices, of which each of several ranks
// computes its own.

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/data/dataset.hpp>
#include <rowgrad/core/parallel/training_ranks.hpp>

namespace rowgrad {

struct TrainingRunOptions;

/// Computes the gradients of the steps of a run, in the same bits on any number of ranks.
class StepGradients {
 public:
  /// The loss of a step.
  struct Loss {
    double mean = 0;    // weighted mean over all targets of the step; 0 if no target has a weight
    double weight = 0;  // sum of the weights of these targets
  };

  /// Borrows both. Throws std::invalid_argument for fewer slices than ranks.
  StepGradients(const TrainingRunOptions& parts, ProcessGroup& group);

  /// The slices of each batch that this rank computes.
  IndexRange own_shards() const;

  /// Adds the gradients of the loss of a step to the parameters, which have none. Every slice of
  /// every batch contributes by its share of the total weight (Model::weight), so a step equals the
  /// step on one batch of all its examples.
  ///
  /// `parts` has this rank's slices of the batches: all slices of the first batch, of the next …
  /// Calls `after_backward` with each tape that went backward. For sharded tables, each rank's
  /// slice gets the gradients of its rows and, if they are `watched`, ShardedTable::table
  /// the gradients of all rows. Throws std::logic_error for a parameter that gets a gradient but is
  /// not one of the optimizer's. After an exception on several ranks, messages may still be under
  /// way.
  Loss add(const std::vector<Batch>& parts, bool watched,
           const std::function<void(const Tape&)>& after_backward);

  /// The sum over ranks; null for a process alone.
  const GradientSum* sum() const { return sum_.get(); }

 private:
  void follow_optimizer();
  ShardedTable* table_of(const Parameter& parameter) const;
  double sum_of_parts(const std::vector<double>& own) const;

  const TrainingRunOptions& parts_;
  ProcessGroup& group_;
  std::unique_ptr<GradientSum> sum_;  // over ranks; null for a process alone
  // By each of the optimizer's parameters as tapes see it, its index.
  std::unordered_map<const Parameter*, std::size_t> indices_;
};

}  // namespace rowgrad
