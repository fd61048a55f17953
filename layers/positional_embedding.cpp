#include <numeric>

#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/layers/positional_embedding.hpp>

namespace rowgrad {

std::size_t checked_length(const char* layer, const Variable& x, std::size_t limit,
                           const char* limit_name, std::size_t width) {
  const Shape& shape = x.shape();
  check_argument(shape.size() >= 2 && shape.back() == width, layer, ": x has shape ",
                 bracketed(shape), ", expected [..., length, ", width, "]");
  const std::size_t length = shape[shape.size() - 2];
  check_argument(length <= limit, layer, ": x has length ", length, ", more than the ", limit_name,
                 " of ", limit);
  return length;
}

PositionalEmbedding::PositionalEmbedding(std::size_t context, std::size_t width, Random& random,
                                         const PositionalEmbeddingOptions& options)
    : options_(options), weight_("weight", random.normal({context, width})) {
  check_argument(context > 0 && width > 0, "PositionalEmbedding: context ", context, " and width ",
                 width, " must be above 0");
  register_parameter("weight", weight_);
}

Variable PositionalEmbedding::forward(const Variable& x) {
  const std::size_t length =
      checked_length("PositionalEmbedding", x, weight_.shape()[0], "context", weight_.shape()[1]);
  Ids positions = Ids::from_shape({length});
  std::iota(positions.begin(), positions.end(), 0);
  return x + embedding(x.tape().parameter(weight_), positions,
                       {.dense_gradient = options_.dense_gradient});
}

}  // namespace rowgrad
