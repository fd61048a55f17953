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

EmbeddingTable::EmbeddingTable(const char* layer, std::size_t rows, std::size_t width,
                               Random& random, const EmbeddingOptions& options)
    : EmbeddingTable(
          layer, normal_table(layer, rows, width, random, options.deviation, options.padding_idx),
          options) {}

EmbeddingTable::EmbeddingTable(const char* layer, Tensor table, const EmbeddingOptions& options)
    : weight(*this, "weight", std::move(table)) {
  set(layer, options);
}

EmbeddingTable::EmbeddingTable(const char* layer, TableFile& table, const EmbeddingOptions& options)
    : weight(*this, "weight", file_rows(table)) {
  check_argument(!options.dense_gradient, layer,
                 ": the gradient of a table in a file cannot be dense: ", table.path().string());
  set(layer, options);
}

void EmbeddingTable::set(const char* layer, const EmbeddingOptions& options) {
  lookup_ = {.mode = options.mode,
             .padding_idx = options.padding_idx,
             .scale_grad_by_freq = options.scale_grad_by_freq,
             .dense_gradient = options.dense_gradient,
             .max_norm = options.max_norm,
             .norm_type = options.norm_type,
             .include_last_offset = options.include_last_offset};
  const Shape& shape = weight.shape();
  check_argument(shape.size() == 2 && shape[0] > 0 && shape[1] > 0, layer, ": the table has shape ",
                 bracketed(shape), ", expected [rows, width], both above 0");
  check_lookup(layer, lookup_, shape[0]);
  if (options.scale_by_sqrt_width) scale_ = std::sqrt(static_cast<real>(shape[1]));
  weight.set_trainable(!options.frozen);
}

Variable EmbeddingTable::scaled(const Variable& rows) const {
  return is_scaled() ? rows * scale_ : rows;
}

Variable Embedding::forward(Tape& tape, const Ids& ids) {
  return scaled(embedding(tape.parameter(weight), ids, lookup()));
}

Variable Embedding::forward(Tape& tape, const Ids& ids, const Variable& added) {
  const Variable table = tape.parameter(weight);
  if (!is_scaled()) return embedding_add(table, ids, added, lookup());
  check_added("Embedding", table, ids, added);
  return forward(tape, ids) + added;
}

Variable Embedding::forward(Tape& tape, std::int32_t id) {
  Ids single = Ids::from_shape({});
  *single.data() = id;
  return forward(tape, single);
}

}  // namespace rowgrad
