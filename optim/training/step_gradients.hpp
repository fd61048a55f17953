#pragma once

// The gradients of a step: of some batches, each cut into shards, of which each of several ranks
// computes its own.

#include <cstddef>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/parallel/gradient_exchange.hpp>

namespace rowgrad {

struct TrainingParts;

/// Computes the gradients of the steps of a run, in the same bits on any number of ranks.
class StepGradients {
 public:
  /// The losses of a step's batches.
  struct Losses {
    std::vector<double> means;    // of the targets of each batch
    std::vector<double> weights;  // the sum of the weights of these targets

    /// The mean of the batches of which some targets count; 0 if there are none.
    double mean() const;
  };

  /// Borrows both. Throws std::invalid_argument for fewer shards than ranks.
  StepGradients(const TrainingParts& parts, ProcessGroup& ranks);

  /// The rows of each batch that this rank needs.
  BatchShard shard() const;

  /// Adds the gradients of the mean loss of these batches, this rank's rows of number `first` of an
  /// epoch and those after it, to the parameters, which have none. Calls `after_backward` with each
  /// tape that went backward. Throws std::logic_error for a parameter that gets a gradient but is
  /// none of the optimizer's. After an exception on several ranks, messages may still be under way.
  /// Of split tables, each rank gets those of its own rows (Parameter::local) and, if they are
  /// `watched`, all in the parameter itself.
  Losses add(std::vector<Batch> batches, std::size_t first, bool watched,
             const std::function<void(const Tape&)>& after_backward);

  /// How gradients travel between ranks.
  const GradientExchange& exchange() const { return *exchange_; }

 private:
  void follow_optimizer();
  Batch part_of(const Batch& batch, std::size_t rows, std::size_t shard) const;
  std::vector<double> sums_of_shards(const std::vector<double>& own, std::size_t batches) const;

  const TrainingParts& parts_;
  ProcessGroup& ranks_;
  std::optional<GradientExchange> exchange_;
  std::unordered_map<const Parameter*, std::size_t> indices_;  // among the optimizer's parameters
};

}  // namespace rowgrad
