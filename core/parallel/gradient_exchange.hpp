#pragma once

// The sum of gradients over ranks: dense ones by owners of equal parts, row gradients as the rows
// that were touched, never as a table.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/gradient.hpp>
#include <rowgrad/core/parallel/ranks.hpp>
#include <rowgrad/core/parallel/shards.hpp>

namespace rowgrad {

/// One gradient for each parameter, in the same order on every rank.
using Gradients = std::vector<Gradient>;

/// Adds b to a, parameter by parameter.
void add(Gradients& a, Gradients&& b);

/// Adds up the gradients of the shards of a step, in the order of shards.hpp: every rank gets the
/// same bits, and so it would from any other number of ranks.
///
/// Dense gradients, as one vector, are cut into a part for each rank, its owner, who gets that part
/// from all others, adds it up, and sends the sum back: each number travels about twice, however
/// many ranks there are (reduce-scatter and all-gather; Rabenseifner 2004, "Optimization of
/// Collective Reduction Operations"). Row gradients are either gathered, numbers and values of all
/// ranks by all ranks, or go by owners of equal ranges of rows; whichever took fewer bytes as far
/// as the last step tells.
class GradientExchange {
 public:
  /// For parameters of these shapes and `shards` shards, at least one for each rank. The ranks must
  /// outlive this. Throws std::invalid_argument for fewer shards than ranks.
  GradientExchange(Ranks& ranks, std::size_t shards, std::vector<Shape> shapes);

  /// The shards whose gradients this rank computes, and the nodes of their tree that sum() wants.
  ShardRange shards() const { return part_of(shards_, ranks_.rank(), ranks_.size()); }
  const std::vector<ShardRange>& nodes() const { return nodes_of_[ranks_.rank()]; }

  /// `partial` has the sum of each of nodes(). A shard may have no gradient of a parameter.
  Gradients sum(std::vector<Gradients> partial);

  /// How each parameter's gradient travelled last: "dense", "gathered", "owners" or "none".
  const std::vector<std::string_view>& ways() const { return ways_; }

 private:
  // A node whose sum a rank has computed.
  struct Source {
    std::size_t rank;
    std::size_t node;  // its place among that rank's nodes
    ShardRange range;
  };
  using Partial = std::vector<Gradients>;

  bool is_mine(std::size_t source) const { return sources_[source].rank == ranks_.rank(); }
  Gradient& own(Partial& partial, std::size_t source, std::size_t parameter) const {
    return partial[sources_[source].node][parameter];
  }
  std::int64_t& count(std::size_t source, std::size_t parameter) {
    return counts_[source * shapes_.size() + parameter];
  }
  std::size_t source_of(ShardRange node) const;  // sources_.size() if no rank has this node
  void exchange_counts(const Partial& partial);
  void settle_kinds(Partial& partial);
  void sum_dense(Partial& partial, Gradients& sums);
  void sum_rows(Partial& partial, Gradients& sums);
  Gradient gathered(Partial& partial, std::size_t parameter);
  Gradient by_owners(Partial& partial, std::size_t parameter);
  Gradient merged(std::vector<Gradient> of_sources) const;

  Ranks& ranks_;
  std::size_t shards_;
  std::vector<Shape> shapes_;                      // [parameter]
  std::vector<std::vector<ShardRange>> nodes_of_;  // [rank]
  std::vector<Source> sources_;                    // all ranks' nodes, from left to right
  std::vector<std::int64_t> counts_;    // [source][parameter]: of rows, or kNone or kDense
  std::vector<std::string_view> ways_;  // [parameter]
  std::vector<double> distinct_share_;  // [parameter]: of all ranks' rows, in the last sum
};

}  // namespace rowgrad
