#pragma once

// Computes the gradients of a training step. A step may have several batches. Each batch is cut
// into slices, and each rank computes some of them.

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

/// The gradients of a run's steps. They are bitwise equal on any number of ranks.
class StepGradients {
 public:
  /// The loss of a step.
  struct Loss {
    double mean = 0;    // weighted mean over all targets of the step; 0 if all weights are 0
    double weight = 0;  // total weight of the targets
  };

  /// Borrows both arguments. Throws std::invalid_argument for fewer slices than ranks.
  StepGradients(const TrainingRunOptions& options, ProcessGroup& group);

  /// Returns the slices of each batch that this rank computes.
  IndexRange own_slices() const;

  /// Adds the gradients of a step's loss to the parameters, which must have no gradients. Every
  /// slice of every batch contributes by its share of the total weight (Model::loss_weight), as in
  /// a step on one large batch.
  ///
  /// `slices` has this rank's slices, batch by batch. `after_backward` is called with each tape
  /// after its backward pass. For sharded tables, each rank gets the gradients of its own rows. If
  /// `watched`, ShardedTable::table also gets the gradients of all rows.
  ///
  /// Throws std::logic_error if a parameter gets a gradient but is not one of the optimizer's.
  /// After an exception on several ranks, messages may still be in flight.
  Loss add(const std::vector<Batch>& slices, bool watched,
           const std::function<void(const Tape&)>& after_backward);

  /// Returns the gradient sum over ranks, or null without ranks.
  const GradientSum* sum() const { return sum_.get(); }

 private:
  void follow_optimizer();
  ShardedTable* table_of(const Parameter& parameter) const;
  double sum_of_slices(const std::vector<double>& own) const;

  const TrainingRunOptions& options_;
  ProcessGroup& group_;
  std::unique_ptr<GradientSum> sum_;  // over ranks; null without ranks
  // Maps parameters on tapes to their indices in the optimizer.
  std::unordered_map<const Parameter*, std::size_t> indices_;
};

}  // namespace rowgrad
