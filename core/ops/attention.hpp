#pragma once

// Multi-head attention (Vaswani et al. 2017, section 3.2), fused: neither forward nor backward
// stores length × length probabilities (Dao et al. 2022, "FlashAttention").
//
// Wrong shapes and options throw std::invalid_argument. Dropout on a tape without a random number
// generator throws std::logic_error.

#include <cstddef>
#include <optional>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Relative positions (Shaw, Uszkoreit & Vaswani 2018): two tables [distances, width of a head]
/// whose rows are added to keys and values in all heads. The last row is for distance 0 from the
/// query back to the key, the row before it for distance 1, and so on. The first row is also for
/// all larger distances. See relative_rows() in positions.hpp.
struct RelativeRows {
  Variable keys;    // added to the keys
  Variable values;  // added to the values
};

/// Options of causal_attention() and attention().
struct AttentionOptions {
  std::size_t heads = 1;  // number of heads; must divide the width
  /// The number of heads of k and v, which must divide `heads`; the default is `heads`. Consecutive
  /// heads of q share a head of k and v, whose shape is [batch, keys, key_value_heads · width]
  /// (Ainslie et al. 2023, "GQA"; enable_gqa in PyTorch).
  std::optional<std::size_t> key_value_heads = std::nullopt;
  /// The probability of dropping each attention weight; see dropout().
  double dropout_p = 0;
  /// The number of keys of each sequence in the batch, at least 1. Later keys are padding: no query
  /// sees them, and their gradients are 0. Empty means no padding.
  std::vector<std::size_t> key_lengths = {};
  /// A tensor of 1 and 0 that broadcasts to [batch, heads, queries, keys]. A query does not see a
  /// key with 0 (attn_mask of type bool). If a query sees no key, its output and gradients are 0.
  /// Masked keys and values must not be NaN, which would spread; key_lengths skips padding instead.
  std::optional<Tensor> mask = std::nullopt;
  /// A bias that broadcasts to [batch, heads, queries, keys] and is added to the scores. A query
  /// does not see a key with −∞ (attn_mask of type float). To combine a bias and a mask, call
  /// masked_fill() on the bias.
  std::optional<Variable> bias = std::nullopt;
  /// A bias [heads, distances]. Each score gets the element for the distance from the query back to
  /// the key; see positions.hpp. Requires: distances ≥ keys. Distances that do not occur get zero
  /// gradients.
  std::optional<Variable> distance_bias = std::nullopt;
  /// Tables of relative positions. Distances that do not occur get zero gradients.
  std::optional<RelativeRows> relative = std::nullopt;
};

class KeyValueCache;

/// Computes causal attention: softmax(q kᵀ / √width + bias) v in each head, where a query sees the
/// keys up to its own position. q [batch, queries, heads · width], k and v [batch, keys, heads ·
/// width] → the shape of q. If there are fewer queries than keys, the queries are at the last
/// positions. (In PyTorch's scaled_dot_product_attention(is_causal=True), they are at the first
/// positions.)
///
/// Dropout draws random numbers for all weights [batch, heads, queries, keys] in memory order,
/// including masked weights, as PyTorch does on CPUs without MKL. For backward, the tape keeps the
/// output, two values per query and head and, for dropout, one bit per weight.
///
/// For generation, `cache` holds the keys and values of earlier positions. q, k and v, of batch 1,
/// then belong to the next positions, and k and v are appended to the cache. Throws
/// std::invalid_argument if the cache has no room, if dropout or key_lengths is set, or if several
/// queries reach past the window. Throws std::logic_error if the tape is not an inference tape.
/// In these cases, the cache does not change.
Variable causal_attention(const Variable& q, const Variable& k, const Variable& v,
                          const AttentionOptions& options, KeyValueCache* cache = nullptr);

/// Computes attention over all keys, as in an encoder. The number of queries is independent of the
/// number of keys, as in cross-attention. Throws std::invalid_argument if options.distance_bias or
/// options.relative is set.
Variable attention(const Variable& q, const Variable& k, const Variable& v,
                   const AttentionOptions& options);

/// Returns the weights of causal_attention() for inspection, without dropout and without a
/// gradient: [batch, heads, queries, keys].
Tensor attention_weights(const Variable& q, const Variable& k, const AttentionOptions& options);

/// The keys and values of the positions that one attention layer has read. A query sees the last
/// `window` positions, including its own.
class KeyValueCache {
 public:
  /// Creates an empty cache for `window` positions. Keys and values have `width` elements for all
  /// of their heads together.
  KeyValueCache(std::size_t window, std::size_t width);

  /// Returns the number of positions, including positions that make_room() discarded.
  std::size_t length() const { return length_; }

  /// Makes room for `count` more positions. Discards positions that no later query sees, so memory
  /// does not grow with the sequence.
  void make_room(std::size_t count);

  /// Removes the positions from `length` on. Throws std::invalid_argument if `length` >
  /// length(), or if any of the last `window` remaining positions was discarded.
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
