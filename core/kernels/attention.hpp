#pragma once

// Multi-head attention: softmax(q kᵀ / √width + bias) v over the keys that a query sees (Vaswani et
// al. 2017). The probabilities are never stored. The forward pass keeps two values per query, from
// which the backward pass recomputes the probabilities (Dao et al. 2022, "FlashAttention"; Rabe &
// Staats 2021). Also implements rotary position embeddings (Su et al. 2021, "RoFormer").

#include <array>
#include <cstddef>
#include <vector>

#include <rowgrad/core/kernels/dropout.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// The columns of a head that are rotated: the first 2 · pairs. Pair i is columns i and i + pairs
/// or, if interleaved, 2i and 2i + 1.
struct RotaryColumns {
  std::size_t pairs;
  bool interleaved;
};

/// Rotates each row of x, which has `heads` heads of `head_width` values. A pair (a, b) becomes
/// (a cos − sign b sin, sign a sin + b cos); other columns are copied. Row i is at position
/// i % length; its cosines and sines begin at index position · pairs. A sign of −1 inverts the
/// rotation. y may be x.
void rotate_rows(const RotaryColumns& columns, const real* x, std::size_t rows, std::size_t length,
                 std::size_t heads, std::size_t head_width, const real* cosines, const real* sines,
                 real sign, real* y);

/// A view of q, k, v or the output: row i of head h in batch b is the `width` values from
/// data + b · batch_stride + i · row_stride + h / group · width.
template <class Number>
struct HeadView {
  Number* data = nullptr;
  std::size_t row_stride = 0;
  std::size_t batch_stride = 0;
  std::size_t group = 1;  // number of consecutive heads that share columns
};

/// A view of values for scores [batch, heads, queries, keys]. Axes that are repeated have stride 0.
template <class Number>
struct ScoreView {
  Number* data = nullptr;
  std::array<std::size_t, 4> strides = {};
};

/// The attention inputs, or their gradients.
template <class Number>
struct AttentionOperands {
  HeadView<Number> q;
  HeadView<Number> k;
  HeadView<Number> v;
  /// [heads, distances], or null: biases that are added to scores by the distance from the query
  /// back to the key. Requires: distances ≥ keys.
  Number* distance_bias = nullptr;
  /// Biases that are added to scores, or null. A query whose scores are all −∞ has weights of 0.
  ScoreView<Number> bias = {};
  /// Two tables [relative_distances, width] that all heads share, or null. For each query, the row
  /// for the distance is added to each key and value. The last row is for distance 0, the row
  /// before it for 1, and so on. The first row also covers all larger distances.
  Number* relative_keys = nullptr;
  Number* relative_values = nullptr;
};

/// The sizes, options and inputs of attention. If causal, query i sees the keys up to
/// i + keys − queries, but NaN and ∞ in v may reach earlier queries, as 0 · ∞ is NaN. If not
/// causal, each query sees all keys, and biases and tables by distance are not supported.
/// Requires: queries ≤ keys if causal.
struct Attention {
  std::size_t batch;
  std::size_t heads;
  std::size_t width;  // of each head, at least 1
  std::size_t queries;
  std::size_t keys;
  bool causal = true;
  std::size_t distances = 0;           // columns of distance_bias
  std::size_t relative_distances = 0;  // rows of relative_keys and relative_values
  /// For each row of the batch, the number of leading keys that are used, 1 to `keys`. The other
  /// keys are padding: they are not read and get zero gradients. Empty: all keys are used.
  std::vector<std::size_t> key_lengths = {};
  /// Dropout mask of the probabilities [batch, heads, queries, keys]. The weights of v are
  /// multiplied by mask_factor. Empty: keeps all.
  DropoutMask mask = {};
  real mask_factor = 1;
  AttentionOperands<const real> inputs = {};
};

/// The largest score of each query, and 1 / Σ exp(score − largest): [batch, heads, queries]. A
/// single float log Σ exp(score) would lose small differences between large scores.
struct SoftmaxStats {
  Tensor largest;
  Tensor inverse_sum;
};

/// Writes the output, in the shape of q, and fills `softmax` unless it is null.
void attention_forward(const Attention& attention, const HeadView<real>& output,
                       SoftmaxStats* softmax);

/// Writes the gradients that are not null. `softmax` and `output` come from attention_forward();
/// `upstream` is the gradient of the output. The gradients of k, v and the bias are not summed over
/// heads: in `gradients`, groups of k and v have 1 head, and only the batch and the queries of the
/// bias may be repeated. The gradient of the bias is added to its array.
void attention_backward(const Attention& attention, const SoftmaxStats& softmax,
                        const HeadView<const real>& output, const HeadView<const real>& upstream,
                        const AttentionOperands<real>& gradients);

}  // namespace rowgrad::kernels
