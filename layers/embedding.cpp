#include <algorithm>
#include <cmath>

#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/layers/embedding.hpp>

namespace rowgrad {
namespace {

Tensor start(std::size_t rows, std::size_t width, Random& random,
             const std::optional<std::int32_t>& padding) {
  Tensor table = random.normal({rows, width});
  if (padding && *padding >= 0 && static_cast<std::size_t>(*padding) < rows)
    std::fill_n(table.data() + static_cast<std::size_t>(*padding) * width, width, real{0});
  return table;
}

}  // namespace

Embedding::Embedding(std::size_t rows, std::size_t width, Random& random,
                     const EmbeddingOptions& options)
    : Embedding(start(rows, width, random, options.padding), options) {}

Embedding::Embedding(Tensor table, const EmbeddingOptions& options)
    : options_(options), weight_("weight", std::move(table)) {
  const Shape& shape = weight_.shape();
  check_argument(shape.size() == 2 && shape[0] > 0 && shape[1] > 0,
                 "Embedding: the table has shape ", bracketed(shape),
                 ", expected [rows, width], both above 0");
  check_argument(!options.padding || (*options.padding >= 0 &&
                                      static_cast<std::size_t>(*options.padding) < shape[0]),
                 "Embedding: padding id ", options.padding.value_or(0), " is outside the table's ",
                 shape[0], " rows");
  weight_.set_trainable(!options.frozen);
  register_parameter("weight", weight_);
}

Variable Embedding::forward(Tape& tape, const Ids& ids) {
  const Variable rows = embedding(tape.parameter(weight_), ids,
                                  {.padding = options_.padding,
                                   .scale_grad_by_freq = options_.scale_grad_by_freq,
                                   .dense_gradient = options_.dense_gradient});
  if (!options_.scale_by_sqrt_width) return rows;
  return rows * std::sqrt(static_cast<real>(weight_.shape()[1]));
}

Variable Embedding::forward(Tape& tape, std::int32_t id) {
  Ids single = Ids::from_shape({});
  *single.data() = id;
  return forward(tape, single);
}

}  // namespace rowgrad
