#pragma once

// Sums of gradients over ranks. Each rank sums an equal share of the dense gradients. Row gradients
// travel as rows, not as whole tables. Invalid arguments throw std::invalid_argument, and calls in
// the wrong order std::logic_error.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <rowgrad/core/parallel/training_ranks.hpp>

namespace rowgrad {

/// The sum of gradients over ranks.
///
/// The dense gradients of a bucket of consecutive parameters are one vector. Each rank owns an
/// equally long range, receives its values from all other ranks, and sends their sums back. So each
/// rank sends each element about twice on any number of ranks (reduce-scatter and all-gather;
/// Rabenseifner 2004, "Optimization of Collective Reduction Operations"). A bucket is sent once all
/// ranks have its gradients, while other gradients are computed.
///
/// Row gradients are either gathered, so every rank gets all rows, or summed by owners of
/// ranges of rows, which send the sums to all ranks. Large gradients use the way that would have
/// sent fewer bytes in the previous sum; small ones are gathered. Owners of sharded tables keep the
/// sums.
class GradientExchange final : public GradientSum {
 public:
  /// Sums gradients with these shapes over `slices` slices, at least one per rank. A bucket has up
  /// to `bucket_bytes` per owner, or one parameter. `ranks` must outlive this object.
  GradientExchange(ProcessGroup& ranks, std::size_t slices, std::vector<Shape> shapes,
                   std::size_t bucket_bytes = kBucketBytes);

  const std::vector<IndexRange>& subtrees() const override { return subtrees_; }
  void start(std::vector<Gradients> earlier, std::vector<bool> sharded = {}) override;
  void submit(std::size_t parameter, Gradient gradient) override;
  Gradients finish() override;
  const std::vector<std::string_view>& ways() const override { return ways_; }

  /// Sums gradients that are all known. `partial` has one entry per subtree.
  Gradients sum(std::vector<Gradients> partial);

 private:
  static constexpr std::int64_t kNone = -1;
  static constexpr std::int64_t kDense = -2;

  // A subtree of slices whose sum one rank computes: a term of the total.
  struct Term {
    std::size_t rank;
    IndexRange slices;
  };
  // The parameters [begin, end), and the state of exchanging their dense gradients.
  struct Bucket {
    enum Step { kNothing, kCounts, kPieces, kSums };
    std::size_t channel;
    std::size_t begin;
    std::size_t end;
    std::size_t missing = 0;           // number of gradients that have not been submitted
    Step awaits = kNothing;            // transfer that was started last
    std::vector<Tensor> arrived = {};  // [term]: values of this rank's pieces
  };
  // `count` elements of a dense gradient, from `offset` on.
  struct Piece {
    std::size_t parameter;
    std::size_t offset;
    std::size_t count;
  };

  bool is_mine(std::size_t term) const { return terms_[term].rank == ranks_.rank(); }
  Gradient& own(std::size_t term, std::size_t parameter) {
    return own_[term - first_own_][parameter];
  }
  std::int64_t& count(std::size_t term, std::size_t parameter) {
    return counts_[term * shapes_.size() + parameter];
  }
  std::size_t term_of(IndexRange slices) const;  // terms_.size() if no term has these slices
  void send_rows(std::size_t to, const RowGradient& rows, IndexRange sent);
  void start_transfers(std::size_t channel);
  void advance(Bucket& bucket);
  void exchange_counts(Bucket& bucket);
  void exchange_pieces(Bucket& bucket);
  void exchange_sums(Bucket& bucket);
  std::vector<Piece> pieces_of(const Bucket& bucket, std::size_t owner) const;
  void sum_rows(std::size_t parameter);
  Gradient sum_by_owners(std::size_t parameter);
  Gradient sum_rows_in(std::size_t parameter, const std::vector<IndexRange>& wanted,
                       const std::vector<std::int64_t>& arriving);

  ProcessGroup& ranks_;
  std::size_t slices_;
  std::vector<Shape> shapes_;  // [parameter]
  std::vector<Term> terms_;    // from left to right, so a rank's terms are adjacent
  std::size_t first_own_ = 0;  // this rank's first term
  std::vector<IndexRange> subtrees_;
  std::vector<Bucket> buckets_;         // from the last parameters to the first
  std::vector<double> distinct_share_;  // [parameter]: distinct rows / all rows in the last sum
  std::vector<std::string_view> ways_;  // [parameter]

  // The sum in progress, if own_ is not empty:
  std::vector<Gradients> own_;          // this rank's terms
  std::vector<Gradients> left_halves_;  // the last term, except its last slice
  std::vector<bool> submitted_;         // [parameter]
  std::vector<bool> sharded_;           // [parameter]
  std::vector<std::int64_t> counts_;    // [term][parameter]: number of rows, kNone or kDense
  Gradients sums_;
  std::vector<ProcessGroup::Send> sends_;        // for start_transfers()
  std::vector<ProcessGroup::Receive> receives_;  // for start_transfers()
};

}  // namespace rowgrad
