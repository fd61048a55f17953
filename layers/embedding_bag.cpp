#include <utility>

#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/embedding_bag.hpp>

namespace rowgrad {

EmbeddingBag::EmbeddingBag(std::size_t rows, std::size_t width, Random& random,
                           const EmbeddingBagOptions& options)
    : EmbeddingBag(normal_table("EmbeddingBag", rows, width, random, options.padding), options) {}

EmbeddingBag::EmbeddingBag(Tensor table, const EmbeddingBagOptions& options)
    : lookup_{.mode = options.mode,
              .padding = options.padding,
              .scale_grad_by_freq = options.scale_grad_by_freq,
              .dense_gradient = options.dense_gradient,
              .include_last_offset = options.include_last_offset},
      weight_("weight", std::move(table)) {
  const Shape& shape = weight_.shape();
  check_argument(shape.size() == 2 && shape[0] > 0 && shape[1] > 0,
                 "EmbeddingBag: the table has shape ", bracketed(shape),
                 ", expected [rows, width], both above 0");
  check_bag_options("EmbeddingBag", lookup_, shape[0]);
  weight_.set_trainable(!options.frozen);
  register_parameter("weight", weight_);
}

Variable EmbeddingBag::forward(Tape& tape, Bags bags) {
  return embedding_bag(tape.parameter(weight_), std::move(bags), lookup_);
}

}  // namespace rowgrad
