#pragma once

// Attention of all heads: softmax(q kᵀ / √width + bias) v over the keys that a query sees (Vaswani
// et al. 2017), without a table of probabilities. The forward pass keeps two numbers per query,
// from which the backward pass computes the probabilities again (Dao et al. 2022, "FlashAttention";
// Rabe & Staats 2021). And the rotation of queries and keys by angles that depend on the position
// (Su et al. 2021, "RoFormer").

#include <cstddef>
#include <vector>

#include <rowgrad/core/kernels/dropout.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Which columns of a head are rotated: the first 2 · pairs, pair i being i and i + pairs, or if
/// interleaved, 2i and 2i + 1. The others are copied.
struct RotaryColumns {
  std::size_t pairs;
  bool interleaved;
};

/// Each row of x has `heads` heads of `head_width` values, of which each pair (a, b) becomes
/// (a cos − sign b sin, sign a sin + b cos). Row i is at position i % length, whose cosines and
/// sines begin at position · pairs. A sign of −1 undoes what 1 does. y may be x.
void rotate_rows(const RotaryColumns& columns, const real* x, std::size_t rows, std::size_t length,
                 std::size_t heads, std::size_t head_width, const real* cosines, const real* sines,
                 real sign, real* y);

/// One factor of all heads: row i of head h in batch b are the `width` values from
/// data + b · batch_stride + i · row_stride + h · width.
template <class Number>
struct HeadView {
  Number* data = nullptr;
  std::size_t row_stride = 0;
  std::size_t batch_stride = 0;
};

/// The arrays of the inputs, or where their gradients go.
template <class Number>
struct AttentionOperands {
  HeadView<Number> q;
  HeadView<Number> k;
  HeadView<Number> v;
  /// [heads, distances], at least as many distances as keys, or null: what is added to a score by
  /// the distance from its query back to its key.
  Number* distance_bias = nullptr;
  /// Two tables [relative_distances, width] that all heads share, or null: each key and value is
  /// seen from a query with a row of them added, that of the distance. The last row is for distance
  /// 0, the one before it for 1 …, and the first one also for all that are farther away.
  Number* relative_keys = nullptr;
  Number* relative_values = nullptr;
};

/// If it is causal, the queries are the last ones of a sequence of `keys` ≥ `queries` positions:
/// query i sees the keys up to i + keys − queries. NaN and ∞ in v may reach earlier queries, too,
/// as 0 · ∞ is NaN. If not, each query sees all keys, and there are no biases or rows by distance.
struct Attention {
  std::size_t batch;
  std::size_t heads;
  std::size_t width;  // of a head, at least 1
  std::size_t queries;
  std::size_t keys;
  bool causal = true;
  std::size_t distances = 0;           // that have a bias
  std::size_t relative_distances = 0;  // that have rows for keys and values
  /// Of each row of the batch: how many of its keys count, the first ones, 1 to `keys`. What comes
  /// after them, be it NaN, is not read, and gets zeros as its gradient. Empty: all.
  std::vector<std::size_t> key_lengths = {};
  /// Which probabilities [batch, heads, queries, keys] are kept and multiplied by mask_factor.
  /// Empty: all.
  DropoutMask mask = {};
  real mask_factor = 1;
  AttentionOperands<const real> inputs = {};
};

/// Of each query's scores [batch, heads, queries]: the largest one, and 1 / Σ exp(score − largest).
/// Together they are as exact as the softmax itself, where one log Σ exp(score) in float would lose
/// the digits of small differences between large scores.
struct SoftmaxStats {
  Tensor largest;
  Tensor inverse_sum;
};

/// Writes the output, which has the shape of q, and `softmax` unless it is null.
void attention_forward(const Attention& attention, const HeadView<real>& output,
                       SoftmaxStats* softmax);

/// Writes the gradients, but for those that are null, given the output, its gradient `upstream` and
/// what attention_forward wrote about the softmax.
void attention_backward(const Attention& attention, const SoftmaxStats& softmax,
                        const HeadView<const real>& output, const HeadView<const real>& upstream,
                        const AttentionOperands<real>& gradients);

}  // namespace rowgrad::kernels
