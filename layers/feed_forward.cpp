#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/layers/feed_forward.hpp>

namespace rowgrad {

FeedForward::FeedForward(std::size_t width, Random& random, const FeedForwardOptions& options)
    : gelu_(options.gelu),
      up(*this, "up", width, 4 * width, random, LinearOptions{.bias = options.bias}),
      down(*this, "down", 4 * width, width, random, LinearOptions{.bias = options.bias}),
      dropout(*this, "dropout", options.dropout) {}

Variable FeedForward::forward(const Variable& x) {
  const Variable inner = up.forward(x);
  return dropout.forward(down.forward(gelu_ == Gelu::kTanh ? gelu_tanh(inner) : gelu(inner)));
}

}  // namespace rowgrad
