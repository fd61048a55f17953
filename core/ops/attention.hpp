#pragma once

// Attention of several heads (Vaswani et al. 2017, section 3.2), fused: neither forward nor
// backward holds a table of length × length probabilities (Dao et al. 2022, "FlashAttention").
//
// Shapes and options that do not fit throw std::invalid_argument; dropout on a tape without random
// numbers, std::logic_error.

#include <cstddef>
#include <optional>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Two tables [distances, width of a head] whose rows all heads add to keys and values, by the
/// distance from the query back to the key (Shaw, Uszkoreit & Vaswani 2018): the last row is for
/// distance 0, the one before it for 1 …, and the first one also for all that are farther away. See
/// relative_rows() in positions.hpp.
struct RelativeRows {
  Variable keys;    // rows added to the keys, by distance
  Variable values;  // rows added to the values, by distance
};

/// Options of causal_attention() and attention().
struct AttentionOptions {
  std::size_t heads = 1;  // number of heads; divides the width
  /// The probability with which each attention weight is dropped; see dropout().
  double dropout_p = 0;
  /// For texts of different lengths in one batch: how many of the keys of each row count, the first
  /// ones, at least 1. What comes after them is padding: whatever its values, no query sees it, and
  /// its gradient is 0. Empty: all keys count.
  std::vector<std::size_t> key_lengths = {};
  /// [heads, distances], at least as many distances as keys: what is added to the score of a key
  /// by its distance back from the query; see positions.hpp. Distances that never occur get zeros
  /// as their gradient.
  std::optional<Variable> distance_bias = std::nullopt;
  /// Rows added to keys and values by distance. Distances that never occur get zero gradients.
  std::optional<RelativeRows> relative = std::nullopt;
};

class KeyValueCache;

/// Per head, softmax(q kᵀ / √width + bias) v over the keys up to the query: q [batch, queries,
/// heads · width], k and v [batch, keys, heads · width] → the shape of q. The queries are the last
/// of the keys' positions (in PyTorch's scaled_dot_product_attention(is_causal=True) the first
/// ones, which matters for fewer queries than keys). With relative rows, each query sees k and v
/// with a row added, without a copy of them for each query.
///
/// Dropout draws one bit for each weight [batch, heads, queries, keys] in that order, including
/// those of later keys, as PyTorch does on CPUs without MKL. Kept for backward are the output, two
/// numbers per query and head, and those bits.
///
/// For a sequence that is read piece by piece, as in generation, `cache` has the keys and values of
/// earlier positions: q, k and v [1, length, width] are those of the next ones, which are added to
/// it. Throws std::invalid_argument if it has no room for them, for several queries past its
/// window, for dropout and for key_lengths, and std::logic_error for a tape that is not for
/// inference; then the cache stays as it is.
Variable causal_attention(const Variable& q, const Variable& k, const Variable& v,
                          const AttentionOptions& options, KeyValueCache* cache = nullptr);

/// Attention over all keys, before and after a query, as in an encoder; there may be any number of
/// queries, as in attention to another text. Distances go back from the query, so
/// options.distance_bias and options.relative are refused.
Variable attention(const Variable& q, const Variable& k, const Variable& v,
                   const AttentionOptions& options);

/// The weights of causal_attention, without dropout and without a gradient, to be looked at:
/// [batch, heads, queries, keys].
Tensor attention_weights(const Variable& q, const Variable& k, const AttentionOptions& options);

/// The keys and values of the positions that one attention layer has read so far. A query sees the
/// last `window` of them, its own included.
class KeyValueCache {
 public:
  /// Makes room for `window` positions of `width` values, the same for keys and values.
  KeyValueCache(std::size_t window, std::size_t width);

  /// The number of positions read so far, including those that make_room() forgot.
  std::size_t length() const { return length_; }

  /// Makes room for `count` more positions, in memory that does not grow with the text: positions
  /// that no later query sees are forgotten. Queries past the window are read one at a time.
  void make_room(std::size_t count);

  /// Removes the positions from `length` on. Throws std::invalid_argument if there are fewer, or if
  /// positions that the next query would see are forgotten.
  void truncate(std::size_t length);

 private:
  friend Variable causal_attention(const Variable& q, const Variable& k, const Variable& v,
                                   const AttentionOptions& options, KeyValueCache* cache);

  Tensor keys_;    // [capacity, width], from position `first_` on
  Tensor values_;  // [capacity, width], from position `first_` on
  std::size_t window_;
  std::size_t first_ = 0;
  std::size_t length_ = 0;
};

}  // namespace rowgrad
