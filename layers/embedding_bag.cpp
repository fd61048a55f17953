#include <utility>

#include <rowgrad/core/tables/table_file.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/embedding_bag.hpp>

namespace rowgrad {

EmbeddingBag::EmbeddingBag(std::size_t rows, std::size_t width, Random& random,
                           const EmbeddingBagOptions& options)
    : EmbeddingBag(
          normal_table("EmbeddingBag", rows, width, random, options.deviation, options.padding_idx),
          options) {}

EmbeddingBag::EmbeddingBag(Tensor table, const EmbeddingBagOptions& options)
    : weight(*this, "weight", std::move(table)) {
  set(options);
}

EmbeddingBag::EmbeddingBag(TableFile& table, const EmbeddingBagOptions& options)
    : weight(*this, "weight", file_rows(table)) {
  check_row_gradients("EmbeddingBag", options.dense_gradient, table);
  set(options);
}

void EmbeddingBag::set(const EmbeddingBagOptions& options) {
  lookup_ = {.mode = options.mode,
             .padding_idx = options.padding_idx,
             .scale_grad_by_freq = options.scale_grad_by_freq,
             .dense_gradient = options.dense_gradient,
             .max_norm = options.max_norm,
             .norm_type = options.norm_type,
             .include_last_offset = options.include_last_offset};
  check_table("EmbeddingBag", weight.shape());
  check_lookup("EmbeddingBag", lookup_, weight.shape()[0]);
  weight.set_trainable(!options.frozen);
}

Variable EmbeddingBag::forward(Tape& tape, Bags bags) {
  return embedding_bag(tape.parameter(weight), std::move(bags), lookup_);
}

}  // namespace rowgrad
