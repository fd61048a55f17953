#include <utility>

#include <rowgrad/core/ops/embedding_renorm.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/embedding_bag.hpp>

namespace rowgrad {

EmbeddingBag::EmbeddingBag(std::size_t rows, std::size_t width, Random& random,
                           const EmbeddingBagOptions& options)
    : EmbeddingBag(normal_table("EmbeddingBag", rows, width, random, options.padding_idx),
                   options) {}

EmbeddingBag::EmbeddingBag(Tensor table, const EmbeddingBagOptions& options)
    : weight(*this, "weight", std::move(table)),
      lookup_{.mode = options.mode,
              .padding_idx = options.padding_idx,
              .scale_grad_by_freq = options.scale_grad_by_freq,
              .dense_gradient = options.dense_gradient,
              .include_last_offset = options.include_last_offset},
      max_norm_(options.max_norm),
      norm_type_(options.norm_type) {
  const Shape& shape = weight.shape();
  check_argument(shape.size() == 2 && shape[0] > 0 && shape[1] > 0,
                 "EmbeddingBag: the table has shape ", bracketed(shape),
                 ", expected [rows, width], both above 0");
  check_bag_options("EmbeddingBag", lookup_, shape[0]);
  check_max_norm("EmbeddingBag", options.max_norm, options.norm_type);
  weight.set_trainable(!options.frozen);
}

Variable EmbeddingBag::forward(Tape& tape, Bags bags) {
  if (max_norm_) {
    check_bags(tape.parameter(weight), bags, lookup_);
    embedding_renorm("EmbeddingBag", tape, weight, bags.ids, *max_norm_, norm_type_);
  }
  return embedding_bag(tape.parameter(weight), std::move(bags), lookup_);
}

}  // namespace rowgrad
