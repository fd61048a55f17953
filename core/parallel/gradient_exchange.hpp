#pragma once

// The sum of gradients over ranks: dense ones by owners of equal parts, row gradients as the rows
// that were touched, never as a table.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/gradient.hpp>
#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/core/base/ranges.hpp>

namespace rowgrad {

/// One gradient for each parameter, in the same order on every rank.
using Gradients = std::vector<Gradient>;

/// Adds b to a, parameter by parameter.
void add(Gradients& a, Gradients&& b);

/// Adds up the gradients of the shards of a step, in the order of ranges.hpp: every rank gets the
/// same bits, and so it would from any other number of ranks.
///
/// Dense gradients, as one vector, are cut into a part for each rank, its owner, who gets that part
/// from all others, adds it up, and sends the sum back: each number travels about twice, however
/// many ranks there are (reduce-scatter and all-gather; Rabenseifner 2004, "Optimization of
/// Collective Reduction Operations"). Row gradients are either gathered, numbers and values of all
/// ranks by all ranks, or go by owners of equal ranges of rows; whichever took fewer bytes as far
/// as the last step tells.
///
/// Dense gradients travel in buckets of consecutive parameters, each of which is on its way as soon
/// as all its gradients are there on all ranks, while those of other parameters are computed.
class GradientExchange {
 public:
  static constexpr std::size_t kBucketBytes = std::size_t{1} << 17;

  /// For parameters of these shapes and `shards` shards, at least one for each rank. A bucket has
  /// up to `bucket_bytes` for each owner, or one parameter. The ranks must outlive this. Throws
  /// std::invalid_argument for fewer shards than ranks.
  GradientExchange(ProcessGroup& ranks, std::size_t shards, std::vector<Shape> shapes,
                   std::size_t bucket_bytes = kBucketBytes);

  /// The subtrees of the tree of shards whose gradients this rank computes. The last one is a
  /// single shard, and those of the others must be there before it begins.
  const std::vector<IndexRange>& subtrees() const { return subtrees_; }

  /// Begins a sum, with the gradients of all subtrees() but the last. A shard may have no gradient
  /// of a parameter. Throws std::invalid_argument for another number of subtrees or parameters, and
  /// std::logic_error if there are several ranks and the last sum was not finished.
  void start(std::vector<Gradients> earlier);

  /// A parameter's gradient on the last shard. Best given from the last parameter to the first.
  /// Throws std::invalid_argument for another shape, and std::logic_error for a parameter that has
  /// been given, and before start().
  void give(std::size_t parameter, Gradient gradient);

  /// The sums. Parameters that have not been given have no gradient on the last shard. Throws
  /// std::logic_error before start().
  Gradients finish();

  /// All this at once: `partial` has the gradients of each of subtrees().
  Gradients sum(std::vector<Gradients> partial);

  /// How each parameter's gradient travelled last: "dense", "gathered", "owners" or "none".
  const std::vector<std::string_view>& ways() const { return ways_; }

 private:
  static constexpr std::int64_t kNone = -1;
  static constexpr std::int64_t kDense = -2;

  // A node whose sum a rank has computed.
  struct Source {
    std::size_t rank;
    std::size_t node;  // its place among that rank's nodes
    IndexRange range;
  };
  // The parameters [begin, end), and what has to come before their dense gradients go on.
  struct Bucket {
    enum Step { kNothing, kGradients, kCounts, kParts, kSums };
    std::size_t channel;
    std::size_t begin;
    std::size_t end;
    Step awaits = kNothing;
    std::vector<Tensor> arrived = {};  // [source]: the numbers of this rank's pieces
  };
  // `count` numbers of a dense gradient from `offset` on.
  struct Piece {
    std::size_t parameter;
    std::size_t offset;
    std::size_t count;
  };

  bool is_mine(std::size_t source) const { return sources_[source].rank == ranks_.rank(); }
  Gradient& own(std::size_t source, std::size_t parameter) {
    return nodes_[sources_[source].node][parameter];
  }
  std::int64_t& count(std::size_t source, std::size_t parameter) {
    return counts_[source * shapes_.size() + parameter];
  }
  std::size_t source_of(IndexRange node) const;  // sources_.size() if no rank has this node
  void advance(Bucket& bucket);
  void exchange_counts(Bucket& bucket);
  void settle_kinds(const Bucket& bucket);
  void exchange_parts(Bucket& bucket);
  void exchange_sums(Bucket& bucket);
  void start(Bucket& bucket, Bucket::Step step);
  std::vector<Piece> pieces_of(const Bucket& bucket, std::size_t owner) const;
  void sum_rows();
  Gradient gathered(std::size_t parameter);
  Gradient by_owners(std::size_t parameter);
  Gradient merged(std::vector<Gradient> of_sources) const;

  ProcessGroup& ranks_;
  std::size_t shards_;
  std::vector<Shape> shapes_;                      // [parameter]
  std::vector<std::vector<IndexRange>> nodes_of_;  // [rank]
  std::vector<Source> sources_;                    // all ranks' nodes, from left to right
  std::vector<IndexRange> subtrees_;
  std::vector<Bucket> buckets_;         // from the last parameters to the first
  std::vector<double> distinct_share_;  // [parameter]: of all ranks' rows, in the last sum
  std::vector<std::string_view> ways_;  // [parameter]

  // Of the sum that is under way, if there are nodes:
  std::vector<Gradients> nodes_;        // of this rank
  std::vector<Gradients> left_halves_;  // the last node but its last shard
  std::vector<bool> given_;             // [parameter]
  std::vector<std::int64_t> counts_;    // [source][parameter]: of rows, or kNone or kDense
  Gradients sums_;
  std::vector<ProcessGroup::Send> sends_;  // that are to be started
  std::vector<ProcessGroup::Receive> receives_;
};

}  // namespace rowgrad
