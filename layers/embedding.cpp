#include <algorithm>
#include <cmath>

#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/parallel/split_rows.hpp>
#include <rowgrad/core/tables/file_rows.hpp>
#include <rowgrad/layers/embedding.hpp>

namespace rowgrad {
namespace {

// A table of so many rows, of which this rank has its `own`; 0 for those that were given.
std::unique_ptr<RowSource> table_of(std::unique_ptr<RowSource> own, std::size_t rows,
                                    ProcessGroup* split) {
  if (split == nullptr) return own;
  check_argument(rows > 0 || split->size() == 1 || own->dense() == nullptr,
                 "EmbeddingOptions::split",
                 ": a table that is given is whole; expected a new one, or one in a file");
  return std::make_unique<SplitRows>(*split, std::move(own), rows);
}

}  // namespace

EmbeddingTable::EmbeddingTable(const char* layer, std::size_t rows, std::size_t width,
                               Random& random, const EmbeddingOptions& options)
    : EmbeddingTable(layer,
                     rows_in_memory(normal_table(layer, rows, width, random, options.deviation,
                                                 options.padding_idx, options.split)),
                     options, rows) {}

EmbeddingTable::EmbeddingTable(const char* layer, std::unique_ptr<RowSource> own,
                               const EmbeddingOptions& options, std::size_t rows)
    : weight(*this, "weight", table_of(std::move(own), rows, options.split)) {
  check_argument(!options.dense_gradient || weight.is_in_memory(), layer,
                 ": the gradient of a table in ", weight.source().location(), " cannot be dense");
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
  split->look_up = [layer, scaling](Parameter& table, auto ids) {
    Tape tape(Tape::inference);
    return read_rows(layer, tape.parameter(table), to_ids(ids), scaling);
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

Tensor normal_table(const char* layer, std::size_t rows, std::size_t width, Random& random,
                    double deviation, const std::optional<std::int32_t>& padding,
                    const ProcessGroup* split) {
  element_count({rows, width}, layer);
  check_argument(std::isfinite(deviation) && deviation >= 0, layer, ": deviation is ", deviation,
                 ", expected a finite number not below 0");
  const auto row = padding_row(layer, padding, rows);
  const std::size_t zeros = row ? static_cast<std::size_t>(*row) : rows;
  const IndexRange kept =
      split == nullptr ? IndexRange{0, rows} : rows_of_rank(rows, split->rank(), split->size());
  if (deviation == 0) return sparse_zeros({kept.size(), width});
  Tensor table = empty({kept.size(), width});
  // Piece by piece. All pieces but the last are of whole groups of 16 numbers, as normals are
  // drawn: so they are those of one draw.
  constexpr std::size_t kPiece = 1024;  // rows, a multiple of 16
  for (std::size_t first = 0, last = 0; first < rows; first = last) {
    last = rows - first < 2 * kPiece ? rows : first + kPiece;
    Tensor piece = random.normal({last - first, width}, 0, deviation);
    if (first <= zeros && zeros < last)
      std::fill_n(piece.data() + (zeros - first) * width, width, real{0});
    const std::size_t begin = std::clamp(kept.begin, first, last);
    const std::size_t end = std::clamp(kept.end, begin, last);
    if (begin < end)
      std::copy_n(piece.data() + (begin - first) * width, (end - begin) * width,
                  table.data() + (begin - kept.begin) * width);
  }
  return table;
}

}  // namespace rowgrad
