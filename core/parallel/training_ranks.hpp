#pragma once

// What a TrainingRun needs of the processes that train one model together: interfaces, so that a
// run in one process needs no core/parallel. ParallelTraining implements them.

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/gradient.hpp>
#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/core/ops/table_placement.hpp>

namespace rowgrad {

class ShardedTable;

/// One gradient for each parameter, in the same order on every rank.
using Gradients = std::vector<Gradient>;

/// Adds b to a, parameter by parameter.
inline void add(Gradients& a, Gradients&& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i].add(std::move(b[i]));
}

/// Adds up the gradients of the slices of a step over all ranks, in the order of ranges.hpp: every
/// rank gets the same bits, and so it would from any other number of ranks.
class GradientSum {
 public:
  static constexpr std::size_t kBucketBytes = std::size_t{1} << 17;  // dense gradients, by default

  GradientSum() = default;
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;
  virtual ~GradientSum() = default;

  /// The subtrees of the tree of slices whose gradients this rank computes. The last one is a
  /// single slice, and the gradients of the others must be there before it begins.
  virtual const std::vector<IndexRange>& subtrees() const = 0;

  /// Begins a sum, with the gradients of all subtrees() but the last. A slice may have no gradient
  /// of a parameter. With several ranks, the last sum must be finished. `sharded` says of which
  /// parameters, if any, each rank wants the sums of its own rows (rows_of_rank) alone.
  virtual void start(std::vector<Gradients> earlier, std::vector<bool> sharded) = 0;

  /// A parameter's gradient on the last slice, once. Best given from the last parameter to the
  /// first.
  virtual void submit(std::size_t parameter, Gradient gradient) = 0;

  /// Returns the sums. Parameters that have not been given have no gradient on the last slice.
  virtual Gradients finish() = 0;

  /// How each parameter's gradient travelled last: "dense", "gathered", "owners" or "none".
  virtual const std::vector<std::string_view>& ways() const = 0;
};

/// The ranks of a run, and its tables whose rows are sharded over them.
class TrainingRanks : public TablePlacement {
 public:
  virtual ProcessGroup& group() const = 0;  // the processes

  /// Makes the sum of a run's gradients, for parameters of these shapes and `slices` slices, at
  /// least one for each rank. Ranks send dense gradients in pieces of up to `bucket_bytes`.
  virtual std::unique_ptr<GradientSum> gradient_sum(std::size_t slices, std::vector<Shape> shapes,
                                                    std::size_t bucket_bytes) const = 0;

  virtual bool has_tables() const = 0;  // whether any table is sharded

  /// Returns the table whose shard or table() this parameter is; null if there is none.
  virtual ShardedTable* find(const Parameter& parameter) const = 0;

  /// Adds this rank's rows of a row gradient of the table to its shard's; and, if `watched`, all
  /// rows to that of table().
  virtual void add_gradient(ShardedTable& table, Gradient gradient, bool watched) const = 0;

  /// Clears the gradients of tables, which are for callbacks.
  virtual void zero_gradients() const = 0;

  /// Completes the partial sums of a shard's gradient: returns those of all ranks, in the order of
  /// rows. For other parameters, returns `parts`.
  virtual std::vector<double> all_parts(const Parameter& parameter,
                                        std::vector<double> parts) const = 0;

  /// Calls `work`, which may differ between ranks, on all ranks. The first rank may fetch rows in
  /// it, which other ranks send after their `work`, or in together(). Ranks must not exchange
  /// anything else, except in together().
  virtual void first_asks(const std::function<void()>& work) = 0;

  /// Called in first_asks() by all ranks: calls `work` when all ranks are here. It may exchange
  /// messages, and all ranks fetch together.
  virtual void together(const std::function<void()>& work) = 0;
};

}  // namespace rowgrad
