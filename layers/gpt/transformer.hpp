#pragma once

// The parts of a transformer (Vaswani et al. 2017; Radford et al. 2019), and a block made of them.
// Invalid options, inputs of another shape, and sizes that are 0 or too large for memory throw
// std::invalid_argument.

#include <cstddef>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/attention.hpp>
#include <rowgrad/core/ops/positions.hpp>
#include <rowgrad/layers/layer.hpp>
#include <rowgrad/layers/linear.hpp>
#include <rowgrad/layers/sequential.hpp>

namespace rowgrad {

struct LayerNormOptions {
  double epsilon = 1e-5;  // added to the variance
  bool bias = true;       // add a learned bias
};

/// A layer that normalizes each row to mean 0 and variance 1, then scales and shifts it: see
/// layer_norm(). Parameters: weight [width], from ones, and bias [width], from zeros.
class LayerNorm : public Layer {
 public:
  /// Creates a norm for rows of `width` elements.
  explicit LayerNorm(std::size_t width, const LayerNormOptions& options = {});

  Variable forward(const Variable& x);  // x [..., width] → the same shape

  Parameter weight;               // [width]
  std::optional<Parameter> bias;  // [width]

 private:
  double epsilon_;
};

/// A layer that divides each row by its root mean square, then scales it: see rms_norm().
/// Parameter: weight [width], from ones.
class RmsNorm : public Layer {
 public:
  /// Creates a norm for rows of `width` elements; epsilon is added to the mean square.
  explicit RmsNorm(std::size_t width, double epsilon = 1e-5);

  Variable forward(const Variable& x);  // x [..., width] → the same shape

  Parameter weight;  // [width]

 private:
  double epsilon_;
};

/// Position data that all attention layers of a model share, prepared once per forward pass.
struct AttentionPositions {
  /// Rotates queries and keys unless null.
  const RotaryTable* rotary = nullptr;
  /// [heads, distances], added to the scores.
  std::optional<Variable> distance_bias = std::nullopt;
  /// Added to keys and values.
  std::optional<RelativeRows> relative = std::nullopt;
};

struct CausalSelfAttentionOptions {
  std::size_t heads = 1;  // number of heads; divides the width
  bool qkv_bias = false;  // use a bias in the query, key and value projections
  bool out_bias = true;   // use a bias in the output projection
  double dropout = 0;     // dropout probability of attention weights and result
};

/// Multi-head attention in which each position sees itself and earlier positions (Vaswani et al.
/// 2017): x [batch, length, width] → the same shape. Head h reads columns [h · width / heads, (h +
/// 1) · width / heads) of the query, key and value projections.
class CausalSelfAttention : public Layer {
 public:
  /// Requires a `width` that is a multiple of options.heads.
  CausalSelfAttention(std::size_t width, Random& random,
                      const CausalSelfAttentionOptions& options = {});

  /// With a cache, reads one sequence in chunks, on an inference tape: x [1, length, width] follows
  /// the cached positions, and its keys and values are appended to the cache.
  Variable forward(const Variable& x, const AttentionPositions& positions = {},
                   KeyValueCache* cache = nullptr);

  /// Returns the attention weights for x, for inspection: [batch, heads, length, length].
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
  Submodule<Linear> query;     // [width, width]
  Submodule<Linear> key;       // [width, width]
  Submodule<Linear> value;     // [width, width]
  Submodule<Linear> out;       // [width, width]
  Submodule<Dropout> dropout;  // applied to the result
};

/// The form of GELU (Hendrycks & Gimpel 2016).
enum class Gelu {
  kTanh,  // approximated with tanh, as in GPT-2: gelu_tanh()
  kErf    // with erf: gelu()
};

struct FeedForwardOptions {
  Gelu gelu = Gelu::kTanh;  // form of GELU
  bool bias = true;         // use a bias in both linear layers
  double dropout = 0;       // dropout probability of the result
};

/// The feed-forward layer of a transformer block: x [..., width] → 4 · width → GELU → [..., width].
class FeedForward : public Layer {
 public:
  /// Draws the weights of `up`, then of `down`.
  FeedForward(std::size_t width, Random& random, const FeedForwardOptions& options = {});

  Variable forward(const Variable& x);  // x [..., width] → the same shape

 private:
  Gelu gelu_;

 public:
  Submodule<Linear> up;        // the first linear layer, from width to 4 · width
  Submodule<Linear> down;      // the second linear layer, from 4 · width back to width
  Submodule<Dropout> dropout;  // applied to the result
};

struct TransformerBlockOptions {
  CausalSelfAttentionOptions attention = {};  // options of attention
  FeedForwardOptions feed_forward = {};       // options of the feed-forward layer
  LayerNormOptions norm = {};                 // options of both norms
};

/// A block of GPT-2 (Radford et al. 2019): y = x + attention(norm1(x)), then y +
/// feed_forward(norm2(y)).
class TransformerBlock : public Layer {
 public:
  /// Constructs the parts in the order of the members.
  TransformerBlock(std::size_t width, Random& random, const TransformerBlockOptions& options = {});

  /// x [batch, length, width] → the same shape. With a cache: see CausalSelfAttention.
  Variable forward(const Variable& x, const AttentionPositions& positions = {},
                   KeyValueCache* cache = nullptr);

  Submodule<CausalSelfAttention> attention;  // after norm1
  Submodule<FeedForward> feed_forward;       // after norm2
  Submodule<LayerNorm> norm1;                // before attention
  Submodule<LayerNorm> norm2;                // before feed-forward
};

}  // namespace rowgrad
