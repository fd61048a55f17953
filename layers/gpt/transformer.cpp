#include <rowgrad/core/ops/normalize.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/layers/gpt/transformer.hpp>

namespace rowgrad {
namespace {

Tensor norm_weight(const char* layer, std::size_t width, double epsilon) {
  check_argument(width > 0, layer, ": width is 0, expected at least 1");
  check_norm_epsilon(layer, epsilon);
  element_count({width}, layer);
  return full({width}, 1);
}

}  // namespace

LayerNorm::LayerNorm(std::size_t width, const LayerNormOptions& options)
    : weight(*this, "weight", norm_weight("LayerNorm", width, options.epsilon)),
      epsilon_(options.epsilon) {
  if (options.bias) bias.emplace(*this, "bias", zeros({width}));
}

Variable LayerNorm::forward(const Variable& x) {
  Tape& tape = x.tape();
  const auto shift = bias ? std::optional(tape.parameter(*bias)) : std::nullopt;
  return layer_norm(x, tape.parameter(weight), shift, epsilon_);
}

RmsNorm::RmsNorm(std::size_t width, double epsilon)
    : weight(*this, "weight", norm_weight("RmsNorm", width, epsilon)), epsilon_(epsilon) {}

Variable RmsNorm::forward(const Variable& x) {
  return rms_norm(x, x.tape().parameter(weight), epsilon_);
}

namespace {

std::size_t checked_width(std::size_t width, std::size_t heads) {
  check_argument(heads > 0 && width > 0 && width % heads == 0, "CausalSelfAttention: width is ",
                 width, ", expected a multiple of heads (", heads, "), both above 0");
  return width;
}

}  // namespace

CausalSelfAttention::CausalSelfAttention(std::size_t width, Random& random,
                                         const CausalSelfAttentionOptions& options)
    : options_(options),
      query(*this, "query", checked_width(width, options.heads), width, random,
            LinearOptions{.bias = options.qkv_bias}),
      key(*this, "key", width, width, random, LinearOptions{.bias = options.qkv_bias}),
      value(*this, "value", width, width, random, LinearOptions{.bias = options.qkv_bias}),
      out(*this, "out", width, width, random, LinearOptions{.bias = options.out_bias}),
      dropout(*this, "dropout", options.dropout) {}

auto CausalSelfAttention::project(const Variable& x, const AttentionPositions& positions,
                                  std::size_t first_position) -> Projections {
  Projections result{query.forward(x), key.forward(x), value.forward(x)};
  if (positions.rotary != nullptr) {
    result.query = rotary(result.query, *positions.rotary, options_.heads, first_position);
    result.key = rotary(result.key, *positions.rotary, options_.heads, first_position);
  }
  return result;
}

AttentionOptions CausalSelfAttention::attention(const AttentionPositions& positions) const {
  return {.heads = options_.heads,
          .dropout_p = training() ? options_.dropout : 0,
          .distance_bias = positions.distance_bias,
          .relative = positions.relative};
}

Variable CausalSelfAttention::forward(const Variable& x, const AttentionPositions& positions,
                                      KeyValueCache* cache) {
  const auto [q, k, v] = project(x, positions, cache != nullptr ? cache->length() : 0);
  return dropout.forward(out.forward(causal_attention(q, k, v, attention(positions), cache)));
}

Tensor CausalSelfAttention::weights(const Variable& x, const AttentionPositions& positions) {
  const auto [q, k, v] = project(x, positions, 0);
  return attention_weights(q, k, attention(positions));
}

FeedForward::FeedForward(std::size_t width, Random& random, const FeedForwardOptions& options)
    : gelu_(options.gelu),
      up(*this, "up", width, 4 * width, random, LinearOptions{.bias = options.bias}),
      down(*this, "down", 4 * width, width, random, LinearOptions{.bias = options.bias}),
      dropout(*this, "dropout", options.dropout) {}

Variable FeedForward::forward(const Variable& x) {
  const Variable inner = up.forward(x);
  return dropout.forward(down.forward(gelu_ == Gelu::kTanh ? gelu_tanh(inner) : gelu(inner)));
}

TransformerBlock::TransformerBlock(std::size_t width, Random& random,
                                   const TransformerBlockOptions& options)
    : attention(*this, "attention", width, random, options.attention),
      feed_forward(*this, "feed_forward", width, random, options.feed_forward),
      norm1(*this, "norm1", width, options.norm),
      norm2(*this, "norm2", width, options.norm) {}

Variable TransformerBlock::forward(const Variable& x, const AttentionPositions& positions,
                                   KeyValueCache* cache) {
  const Variable y = x + attention.forward(norm1.forward(x), positions, cache);
  return y + feed_forward.forward(norm2.forward(y));
}

}  // namespace rowgrad
