#include <numeric>

#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/layers/positional_embedding.hpp>

namespace rowgrad {

std::size_t length_of(const char* layer, const Shape& shape, std::size_t width) {
  check_argument(shape.size() >= 2 && shape.back() == width, layer, ": x has shape ",
                 bracketed(shape), ", expected [..., length, ", width, "]");
  return shape[shape.size() - 2];
}

void check_length(const char* layer, std::size_t first_position, std::size_t length,
                  const char* limit_name, std::size_t limit) {
  check_argument(length <= limit, layer, ": length ", length, " is more than the ", limit_name,
                 " of ", limit);
  check_argument(first_position <= limit - length, layer, ": ", length, " positions from ",
                 first_position, " on exceed the ", limit_name, " of ", limit);
}

PositionalEmbedding::PositionalEmbedding(std::size_t context, std::size_t width, Random& random,
                                         const PositionalEmbeddingOptions& options)
    : weight(*this, "weight",
             normal_table("PositionalEmbedding", context, width, random, options.deviation)),
      options_(options) {
  check_argument(context > 0 && width > 0, "PositionalEmbedding: context ", context, " and width ",
                 width, " must be above 0");
}

Variable PositionalEmbedding::rows(Tape& tape, std::size_t length, std::size_t first_position) {
  check_length("PositionalEmbedding", first_position, length, "context", weight.shape()[0]);
  Ids positions = Ids::from_shape({length});
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(first_position));
  return embedding(tape.parameter(weight), positions, {.dense_gradient = options_.dense_gradient});
}

Variable PositionalEmbedding::forward(const Variable& x) {
  return x + rows(x.tape(), length_of("PositionalEmbedding", x.shape(), weight.shape()[1]));
}

}  // namespace rowgrad
