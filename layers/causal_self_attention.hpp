#pragma once

#include <rowgrad/core/ops/key_value_cache.hpp>
#include <rowgrad/layers/dropout.hpp>
#include <rowgrad/layers/linear.hpp>
#include <rowgrad/layers/positions.hpp>

namespace rowgrad {

struct CausalSelfAttentionOptions {
  std::size_t heads = 1;
  bool qkv_bias = false;  // of the query, key and value projections
  bool out_bias = true;   // of the output projection
  double dropout = 0;     // of the attention weights, and of the result
};

/// Attention of several heads, in which each position sees itself and those before it (Vaswani et
/// al. 2017): x [batch, length, width] → the same shape. Head h reads columns h · width / heads to
/// (h + 1) · width / heads of the query, key and value projections.
class CausalSelfAttention : public Layer {
 public:
  /// Throws std::invalid_argument unless the width is a multiple of the heads, both above 0, and
  /// for a dropout outside [0, 1].
  CausalSelfAttention(std::size_t width, Random& random,
                      const CausalSelfAttentionOptions& options = {});

  /// Throws std::invalid_argument for x of another shape.
  Variable forward(const Variable& x, const AttentionPositions& positions = {});

  /// For a single sequence read piece by piece, on an inference tape: x [1, length, width] are the
  /// positions after those in the cache, which is extended by them.
  Variable forward(const Variable& x, const AttentionPositions& positions, KeyValueCache& cache);

  /// The attention weights for x, to be looked at: [batch, heads, length, length].
  Tensor weights(const Variable& x, const AttentionPositions& positions = {});

 private:
  struct Projections {
    Variable query, key, value;
  };
  Projections project(const Variable& x, const AttentionPositions& positions,
                      std::size_t first_position);
  AttentionOptions attention(const AttentionPositions& positions) const;

  CausalSelfAttentionOptions options_;

 public:
  Part<Linear> query;
  Part<Linear> key;
  Part<Linear> value;
  Part<Linear> out;
  Part<Dropout> dropout;
};

}  // namespace rowgrad
