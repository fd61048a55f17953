#pragma once

// Interfaces to the processes that train one model together, so that a TrainingRun does not need
// rowgrad::parallel. ParallelTraining and GradientExchange implement them.

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

/// One gradient per parameter, in the same order on every rank.
using Gradients = std::vector<Gradient>;

/// Adds b to a, parameter by parameter.
inline void add(Gradients& a, Gradients&& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i].add(std::move(b[i]));
}

/// The sum of a step's gradients over all slices and ranks. Gradients are added in the order of
/// tree_sum(), so every rank gets the same bits, on any number of ranks.
class GradientSum {
 public:
  static constexpr std::size_t kBucketBytes = std::size_t{1} << 17;  // default size of a bucket

  GradientSum() = default;
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;
  virtual ~GradientSum() = default;

  /// Returns the subtrees of slices whose gradients this rank computes. The last one is a single
  /// slice; compute the others first.
  virtual const std::vector<IndexRange>& subtrees() const = 0;

  /// Starts a sum, with the gradients of all subtrees() except the last. A slice may have no
  /// gradient of a parameter. With several ranks, the previous sum must be finished. If sharded[p],
  /// each rank gets the sum of parameter p only for its own rows (rows_of_rank()).
  virtual void start(std::vector<Gradients> earlier, std::vector<bool> sharded) = 0;

  /// Adds a parameter's gradient on the last slice. Call it at most once per parameter, ideally
  /// from last to first.
  virtual void submit(std::size_t parameter, Gradient gradient) = 0;

  /// Returns the sums. Parameters not submitted have no gradient on the last slice.
  virtual Gradients finish() = 0;

  /// Returns how each parameter's gradient travelled in the last sum: "dense", "gathered", "owners"
  /// or "none".
  virtual const std::vector<std::string_view>& ways() const = 0;
};

/// The ranks of a run, and its sharded tables.
class TrainingRanks : public TablePlacement {
 public:
  /// Returns the process group.
  virtual ProcessGroup& group() const = 0;

  /// Creates the gradient sum of parameters with these shapes over `slices` slices, at least one
  /// per rank. Ranks send dense gradients in pieces of about `bucket_bytes`.
  virtual std::unique_ptr<GradientSum> gradient_sum(std::size_t slices, std::vector<Shape> shapes,
                                                    std::size_t bucket_bytes) const = 0;

  /// Returns true if any table is sharded.
  virtual bool has_tables() const = 0;

  /// Returns the table whose shard() or table() is this parameter, or null.
  virtual ShardedTable* find(const Parameter& parameter) const = 0;

  /// Adds this rank's rows of `gradient` to the gradient of the table's shard. If `watched`, also
  /// adds all rows to the gradient of table().
  virtual void add_gradient(ShardedTable& table, Gradient gradient, bool watched) const = 0;

  /// Clears the gradients that table() of each table keeps for callbacks.
  virtual void zero_gradients() const = 0;

  /// Concatenates the partial sums of a shard's gradient on all ranks, in the order of ranks. For
  /// other parameters, returns `parts`.
  virtual std::vector<double> all_parts(const Parameter& parameter,
                                        std::vector<double> parts) const = 0;

  /// Calls `work`, which may differ between ranks. All ranks must call first_asks(). The first rank
  /// may fetch rows in `work`; others send the rows after their `work`, or in together(). Ranks
  /// must not exchange anything else, except in together().
  virtual void first_asks(const std::function<void()>& work) = 0;

  /// Call it in first_asks(). With sharded tables, waits until all ranks call it. Then calls
  /// `work`, in which ranks may exchange messages, and fetch rows together.
  virtual void together(const std::function<void()>& work) = 0;
};

}  // namespace rowgrad
