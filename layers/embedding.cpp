#include <algorithm>
#include <cmath>

#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/parallel/split_rows.hpp>
#include <rowgrad/layers/embedding.hpp>

namespace rowgrad {

namespace {

// A new table in memory, or this rank's rows of one.
std::unique_ptr<ParameterStorage> new_rows(const char* layer, std::size_t rows, std::size_t width,
                                           Random& random, const EmbeddingOptions& options) {
  const IndexRange mine = options.split == nullptr
                              ? IndexRange{0, rows}
                              : rows_of_rank(rows, options.split->rank(), options.split->size());
  auto own = values_in_memory(
      normal_table(layer, rows, width, random, options.deviation, options.padding_idx, mine),
      ParameterStorage::Place{mine.begin, rows});
  if (options.split == nullptr) return own;
  return std::make_unique<SplitRows>(*options.split, Shape{rows, width}, std::move(own));
}

}  // namespace

EmbeddingTable::EmbeddingTable(const char* layer, std::size_t rows, std::size_t width,
                               Random& random, const EmbeddingOptions& options)
    : EmbeddingTable(layer, new_rows(layer, rows, width, random, options), options) {}

EmbeddingTable::EmbeddingTable(const char* layer, Tensor table, const EmbeddingOptions& options)
    : weight(*this, "weight", std::move(table)) {
  set(layer, options);
}

EmbeddingTable::EmbeddingTable(const char* layer, std::unique_ptr<ParameterStorage> rows,
                               const EmbeddingOptions& options)
    : weight(*this, "weight", std::move(rows)) {
  check_argument(!options.dense_gradient || weight.stored().allows_passes(), layer,
                 ": the gradient of a table ",
                 split_rows_of(weight) != nullptr ? "split over ranks" : "in a file",
                 " cannot be dense: ", weight.stored().path());
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
  SplitRows* const split = split_rows_of(weight);
  if (split == nullptr || !options.max_norm) return;
  const EmbeddingLookup scaling{.max_norm = options.max_norm, .norm_type = options.norm_type};
  split->look_up = [layer, scaling](Parameter& own, auto ids) {
    Tape tape(Tape::inference);
    return rowgrad::look_up(layer, tape.parameter(own), to_ids(ids), nullptr, scaling);
  };
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
