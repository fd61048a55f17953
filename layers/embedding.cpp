#include <algorithm>
#include <cmath>

#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/tables/table_file.hpp>
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

void check_table(const char* layer, const Shape& shape) {
  check_argument(shape.size() == 2 && shape[0] > 0 && shape[1] > 0, layer, ": the table has shape ",
                 bracketed(shape), ", expected [rows, width], both above 0");
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
    : weight(*this, "weight", std::move(table)) {
  set(options);
}

Embedding::Embedding(TableFile& table, const EmbeddingOptions& options)
    : weight(*this, "weight", file_rows(table)) {
  check_row_gradients("Embedding", options.dense_gradient, table);
  set(options);
}

void Embedding::set(const EmbeddingOptions& options) {
  lookup_ = {.padding_idx = options.padding_idx,
             .scale_grad_by_freq = options.scale_grad_by_freq,
             .dense_gradient = options.dense_gradient,
             .max_norm = options.max_norm,
             .norm_type = options.norm_type};
  scale_by_sqrt_width_ = options.scale_by_sqrt_width;
  check_table("Embedding", weight.shape());
  check_lookup("Embedding", lookup_, weight.shape()[0]);
  weight.set_trainable(!options.frozen);
}

Variable Embedding::forward(Tape& tape, const Ids& ids) {
  const Variable rows = embedding(tape.parameter(weight), ids, lookup_);
  if (!scale_by_sqrt_width_) return rows;
  return rows * std::sqrt(static_cast<real>(weight.shape()[1]));
}

Variable Embedding::forward(Tape& tape, const Ids& ids, const Variable& added) {
  const Variable table = tape.parameter(weight);
  if (!scale_by_sqrt_width_) return embedding_add(table, ids, added, lookup_);
  check_added("Embedding", table, ids, added);
  return forward(tape, ids) + added;
}

Variable Embedding::forward(Tape& tape, std::int32_t id) {
  Ids single = Ids::from_shape({});
  *single.data() = id;
  return forward(tape, single);
}

}  // namespace rowgrad
