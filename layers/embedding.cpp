#include <algorithm>
#include <cmath>

#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/core/ops/embedding_renorm.hpp>
#include <rowgrad/layers/embedding.hpp>

namespace rowgrad {

Tensor normal_table(const char* layer, std::size_t rows, std::size_t width, Random& random,
                    const std::optional<std::int32_t>& padding) {
  element_count({rows, width}, layer);
  const auto row = padding_row(layer, padding, rows);
  Tensor table = random.normal({rows, width});
  if (row) std::fill_n(table.data() + static_cast<std::size_t>(*row) * width, width, real{0});
  return table;
}

Embedding::Embedding(std::size_t rows, std::size_t width, Random& random,
                     const EmbeddingOptions& options)
    : Embedding(normal_table("Embedding", rows, width, random, options.padding_idx), options) {}

Embedding::Embedding(Tensor table, const EmbeddingOptions& options)
    : weight(*this, "weight", std::move(table)), options_(options) {
  const Shape& shape = weight.shape();
  check_argument(shape.size() == 2 && shape[0] > 0 && shape[1] > 0,
                 "Embedding: the table has shape ", bracketed(shape),
                 ", expected [rows, width], both above 0");
  check_options();
}

Embedding::Embedding(TableFile& table, const EmbeddingOptions& options)
    : weight(*this, "weight", table), options_(options) {
  check_argument(!options.dense_gradient, "Embedding: the gradient of a table in a file cannot be ",
                 "dense: ", table.path().string());
  check_options();
}

void Embedding::check_options() {
  padding_row("Embedding", options_.padding_idx, weight.shape()[0]);
  check_max_norm("Embedding", options_.max_norm, options_.norm_type);
  weight.set_trainable(!options_.frozen);
}

Variable Embedding::begin_lookup(Tape& tape, const Ids& ids) {
  if (options_.max_norm) {
    kernels::check_ids("Embedding", ids.storage(), ids.shape(), weight.shape()[0]);
    embedding_renorm("Embedding", tape, weight, ids, *options_.max_norm, options_.norm_type);
  }
  return tape.parameter(weight);
}

EmbeddingLookup Embedding::lookup() const {
  return {.padding_idx = options_.padding_idx,
          .scale_grad_by_freq = options_.scale_grad_by_freq,
          .dense_gradient = options_.dense_gradient};
}

Variable Embedding::forward(Tape& tape, const Ids& ids, const Variable& added) {
  if (options_.scale_by_sqrt_width) {
    const Variable rows = forward(tape, ids);
    check_added("Embedding", rows.shape(), added.shape());
    return rows + added;
  }
  return embedding_add(begin_lookup(tape, ids), ids, added, lookup());
}

Variable Embedding::forward(Tape& tape, const Ids& ids) {
  const Variable rows = embedding(begin_lookup(tape, ids), ids, lookup());
  if (!options_.scale_by_sqrt_width) return rows;
  return rows * std::sqrt(static_cast<real>(weight.shape()[1]));
}

Variable Embedding::forward(Tape& tape, std::int32_t id) {
  Ids single = Ids::from_shape({});
  *single.data() = id;
  return forward(tape, single);
}

}  // namespace rowgrad
