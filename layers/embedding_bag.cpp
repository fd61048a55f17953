#include <utility>

#include <rowgrad/core/autograd/table_file.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/embedding_bag.hpp>

namespace rowgrad {
namespace {

EmbeddingBagLookup lookup_of(const EmbeddingBagOptions& options) {
  return {.mode = options.mode,
          .padding_idx = options.padding_idx,
          .scale_grad_by_freq = options.scale_grad_by_freq,
          .dense_gradient = options.dense_gradient,
          .include_last_offset = options.include_last_offset};
}

}  // namespace

EmbeddingBag::EmbeddingBag(std::size_t rows, std::size_t width, Random& random,
                           const EmbeddingBagOptions& options)
    : EmbeddingBag(
          normal_table("EmbeddingBag", rows, width, random, options.deviation, options.padding_idx),
          options) {}

EmbeddingBag::EmbeddingBag(Tensor table, const EmbeddingBagOptions& options)
    : weight(*this, "weight", std::move(table)),
      lookup_(lookup_of(options)),
      max_norm_(options.max_norm),
      norm_type_(options.norm_type) {
  check(options);
}

EmbeddingBag::EmbeddingBag(TableFile& table, const EmbeddingBagOptions& options)
    : weight(*this, "weight", table),
      lookup_(lookup_of(options)),
      max_norm_(options.max_norm),
      norm_type_(options.norm_type) {
  check_row_gradients("EmbeddingBag", options.dense_gradient, table);
  check(options);
}

void EmbeddingBag::check(const EmbeddingBagOptions& options) {
  const Shape& shape = weight.shape();
  check_argument(shape.size() == 2 && shape[0] > 0 && shape[1] > 0,
                 "EmbeddingBag: the table has shape ", bracketed(shape),
                 ", expected [rows, width], both above 0");
  check_bag_options("EmbeddingBag", lookup_, shape[0]);
  check_max_norm("EmbeddingBag", options.max_norm, options.norm_type);
  weight.set_trainable(!options.frozen);
}

Variable EmbeddingBag::forward(Tape& tape, Bags bags) {
  const Variable table = tape.parameter(weight);
  if (max_norm_) {
    check_bags(table, bags, lookup_);
    embedding_renorm("EmbeddingBag", tape, weight, bags.ids, *max_norm_, norm_type_);
  }
  return embedding_bag(table, std::move(bags), lookup_);
}

}  // namespace rowgrad
