#pragma once

// Attention for a sequence that is read piece by piece, as in generation.

#include <cstddef>

#include <rowgrad/core/ops/attention.hpp>

namespace rowgrad {

/// The keys and values of the positions that one attention layer has read so far.
class KeyValueCache {
 public:
  /// Room for `capacity` positions of `width` values, the same for keys and values.
  KeyValueCache(std::size_t capacity, std::size_t width);

  /// How many positions it holds.
  std::size_t length() const { return length_; }

  /// Forgets the positions from `length` on. Throws std::invalid_argument if it holds fewer.
  void truncate(std::size_t length);

 private:
  friend Variable causal_attention(const Variable& q, const Variable& k, const Variable& v,
                                   const AttentionOptions& options, KeyValueCache& cache);

  Tensor keys_;    // [capacity, width]
  Tensor values_;  // [capacity, width]
  std::size_t length_ = 0;
};

/// causal_attention of queries q [1, length, width] over the positions in the cache and their own:
/// adds k and v, of the same shape, to the cache first. Throws what causal_attention throws,
/// std::invalid_argument for more positions than the cache has room for, and std::logic_error for
/// a tape that is not for inference; then the cache stays as it is.
Variable causal_attention(const Variable& q, const Variable& k, const Variable& v,
                          const AttentionOptions& options, KeyValueCache& cache);

}  // namespace rowgrad
