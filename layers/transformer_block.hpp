#pragma once

#include <rowgrad/layers/causal_self_attention.hpp>
#include <rowgrad/layers/feed_forward.hpp>
#include <rowgrad/layers/layer_norm.hpp>

namespace rowgrad {

struct TransformerBlockOptions {
  CausalSelfAttentionOptions attention = {};
  FeedForwardOptions feed_forward = {};
  LayerNormOptions norm = {};
};

/// A block of GPT-2 (Radford et al. 2019): x + attention(norm1(x)), then x +
/// feed_forward(norm2(x)).
class TransformerBlock : public Layer {
 public:
  /// Throws std::invalid_argument for options that its parts refuse.
  TransformerBlock(std::size_t width, Random& random, const TransformerBlockOptions& options = {});

  /// x [batch, length, width] → the same shape.
  Variable forward(const Variable& x, const AttentionPositions& positions = {});

  /// With the keys and values of earlier positions: see CausalSelfAttention.
  Variable forward(const Variable& x, const AttentionPositions& positions, KeyValueCache& cache);

  Part<CausalSelfAttention> attention;
  Part<FeedForward> feed_forward;
  Part<LayerNorm> norm1;
  Part<LayerNorm> norm2;
};

}  // namespace rowgrad
