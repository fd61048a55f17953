#include <numeric>

#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/layers/positional_embedding.hpp>

namespace rowgrad {

std::size_t checked_length(const char* layer, const Shape& shape, std::size_t limit,
                           const char* limit_name, std::size_t width) {
  check_argument(shape.size() >= 2 && shape.back() == width, layer, ": x has shape ",
                 bracketed(shape), ", expected [..., length, ", width, "]");
  const std::size_t length = shape[shape.size() - 2];
  check_argument(length <= limit, layer, ": x has length ", length, ", more than the ", limit_name,
                 " of ", limit);
  return length;
}

Shape embedded_shape(const Embedding& token, const Ids& ids) {
  Shape shape(ids.shape().begin(), ids.shape().end());
  shape.push_back(token.weight().shape()[1]);
  return shape;
}

PositionalEmbedding::PositionalEmbedding(std::size_t context, std::size_t width, Random& random,
                                         const PositionalEmbeddingOptions& options)
    : options_(options),
      weight_("weight", normal_table("PositionalEmbedding", context, width, random)) {
  check_argument(context > 0 && width > 0, "PositionalEmbedding: context ", context, " and width ",
                 width, " must be above 0");
  register_parameter("weight", weight_);
}

Variable PositionalEmbedding::rows(Tape& tape, std::size_t length) {
  Ids positions = Ids::from_shape({length});
  std::iota(positions.begin(), positions.end(), 0);
  return embedding(tape.parameter(weight_), positions, {.dense_gradient = options_.dense_gradient});
}

Variable PositionalEmbedding::forward(const Variable& x) {
  const auto [context, width] = std::pair(weight_.shape()[0], weight_.shape()[1]);
  return x + rows(x.tape(),
                  checked_length("PositionalEmbedding", x.shape(), context, "context", width));
}

Variable PositionalEmbedding::forward(Tape& tape, Embedding& token, const Ids& ids) {
  const auto [context, width] = std::pair(weight_.shape()[0], weight_.shape()[1]);
  const std::size_t length =
      checked_length("PositionalEmbedding", embedded_shape(token, ids), context, "context", width);
  return token.forward(tape, ids, rows(tape, length));
}

}  // namespace rowgrad
