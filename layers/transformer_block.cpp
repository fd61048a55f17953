#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/layers/transformer_block.hpp>

namespace rowgrad {

TransformerBlock::TransformerBlock(std::size_t width, Random& random,
                                   const TransformerBlockOptions& options)
    : attention(*this, "attention", width, random, options.attention),
      feed_forward(*this, "feed_forward", width, random, options.feed_forward),
      norm1(*this, "norm1", width, options.norm),
      norm2(*this, "norm2", width, options.norm) {}

Variable TransformerBlock::forward(const Variable& x, const AttentionPositions& positions) {
  const Variable y = x + attention.forward(norm1.forward(x), positions);
  return y + feed_forward.forward(norm2.forward(y));
}

Variable TransformerBlock::forward(const Variable& x, const AttentionPositions& positions,
                                   KeyValueCache& cache) {
  const Variable y = x + attention.forward(norm1.forward(x), positions, cache);
  return y + feed_forward.forward(norm2.forward(y));
}

}  // namespace rowgrad
