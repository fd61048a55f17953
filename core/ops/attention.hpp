#pragma once

// Attention of several heads (Vaswani et al. 2017, section 3.2), fused: neither forward nor
// backward holds a table of length × length probabilities (Dao et al. 2022, "FlashAttention").
//
// Shapes and options that do not fit throw std::invalid_argument; dropout on a tape without random
// numbers, std::logic_error.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Two tables [distances, width of a head] whose rows all heads add to keys and values, by the
/// distance from the query back to the key (Shaw, Uszkoreit & Vaswani 2018): the last row is for
/// distance 0, the one before it for 1 …, and the first one also for all that are farther away. See
/// relative_rows() in distance_bias.hpp.
struct RelativeRows {
  Variable keys;
  Variable values;
};

struct AttentionOptions {
  std::size_t heads = 1;
  /// The probability with which each attention weight is dropped; see dropout().
  double dropout_p = 0;
  /// For texts of different lengths in one batch: how many of the keys of each row count, the first
  /// ones, at least 1. What comes after them is padding: whatever numbers it has, no query sees
  /// it, and its gradient is 0. Empty: all keys count.
  std::vector<std::size_t> key_lengths = {};
  /// [heads, distances], at least as many distances as keys: what is added to the score of a key
  /// by its distance back from the query; see distance_bias.hpp. Distances that never occur get
  /// zeros as their gradient.
  std::optional<Variable> distance_bias = std::nullopt;
  /// Distances that never occur get zeros as their gradient.
  std::optional<RelativeRows> relative = std::nullopt;
};

/// For what attends: throws std::invalid_argument naming `caller` unless the bias and the relative
/// rows, if any, are for options.heads heads of `width` columns and at least `keys` keys.
void check_distances(std::string_view caller, const AttentionOptions& options, std::size_t width,
                     std::size_t keys);

/// Per head, softmax(q kᵀ / √width + bias) v over the keys up to the query: q [batch, queries,
/// heads · width], k and v [batch, keys, heads · width] → the shape of q. The queries are the last
/// of the keys' positions, so that a cache of earlier keys can be used in generation. With relative
/// rows, each query sees k and v with a row added, without a copy of them for each query.
///
/// Dropout draws one bit for each weight [batch, heads, queries, keys] in that order, including
/// those of later keys, as PyTorch does on CPUs without MKL. Kept for backward are the output, two
/// numbers per query and head, and those bits.
///
/// Throws std::invalid_argument for shapes and key_lengths that do not fit and dropout_p outside
/// [0, 1], and std::logic_error for dropout on a tape without random numbers.
Variable causal_attention(const Variable& q, const Variable& k, const Variable& v,
                          const AttentionOptions& options);

/// The same over all keys, before and after a query, as in an encoder; there may be any number of
/// queries, as in attention to another text. Distances, which go back from the query, are refused:
/// throws std::invalid_argument for options.distance_bias and options.relative, too.
Variable attention(const Variable& q, const Variable& k, const Variable& v,
                   const AttentionOptions& options);

/// The weights of causal_attention, without dropout and without a gradient, to be looked at:
/// [batch, heads, queries, keys]. Throws what causal_attention throws.
Tensor attention_weights(const Variable& q, const Variable& k, const AttentionOptions& options);

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
