#include <algorithm>
#include <cmath>

#include <rowgrad/core/autograd/table_file.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/layers/embedding.hpp>

namespace rowgrad {

Tensor normal_table(const char* layer, std::size_t rows, std::size_t width, Random& random,
                    double deviation, const std::optional<std::int32_t>& padding) {
  element_count({rows, width}, layer);
  check_argument(std::isfinite(deviation) && deviation >= 0, layer, ": deviation is ", deviation,
                 ", expected a finite number not below 0");
  const auto row = padding_row(layer, padding, rows);
  if (deviation == 0) return sparse_zeros({rows, width});
  Tensor table = random.normal({rows, width}, 0, deviation);
  if (row) std::fill_n(table.data() + static_cast<std::size_t>(*row) * width, width, real{0});
  return table;
}

void check_row_gradients(const char* layer, bool dense_gradient, const TableFile& table) {
  check_argument(!dense_gradient, layer,
                 ": the gradient of a table in a file cannot be dense: ", table.path().string());
}

Embedding::Embedding(std::size_t rows, std::size_t width, Random& random,
                     const EmbeddingOptions& options)
    : Embedding(
          normal_table("Embedding", rows, width, random, options.deviation, options.padding_idx),
          options) {}

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
  check_row_gradients("Embedding", options.dense_gradient, table);
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
  Shape rows = ids.shape();
  rows.push_back(weight.shape()[1]);
  check_added("Embedding", rows, added.shape());
  check_state(&added.tape() == &tape, "Embedding: what is added belongs to another tape");
  if (options_.scale_by_sqrt_width) return forward(tape, ids) + added;
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
