#include <rowgrad/layers/causal_self_attention.hpp>

namespace rowgrad {
namespace {

std::size_t checked_width(std::size_t width, std::size_t heads) {
  check_argument(heads > 0 && width > 0 && width % heads == 0, "CausalSelfAttention: width ", width,
                 " is not a multiple of ", heads, " heads, both above 0");
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

Variable CausalSelfAttention::forward(const Variable& x, const AttentionPositions& positions) {
  const auto [q, k, v] = project(x, positions, 0);
  return dropout.forward(out.forward(causal_attention(q, k, v, attention(positions))));
}

Variable CausalSelfAttention::forward(const Variable& x, const AttentionPositions& positions,
                                      KeyValueCache& cache) {
  const auto [q, k, v] = project(x, positions, cache.length());
  return dropout.forward(out.forward(causal_attention(q, k, v, attention(positions), cache)));
}

Tensor CausalSelfAttention::weights(const Variable& x, const AttentionPositions& positions) {
  const auto [q, k, v] = project(x, positions, 0);
  return attention_weights(q, k, attention(positions));
}

}  // namespace rowgrad
