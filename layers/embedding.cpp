#include <algorithm>
#include <cmath>

#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/layers/embedding.hpp>

namespace rowgrad {
namespace {

// Draws a new table and returns the rows that this process holds.
std::unique_ptr<RowSource> new_rows(const char* layer, std::size_t rows, std::size_t width,
                                    Random& random, const EmbeddingOptions& options) {
  const IndexRange kept =
      options.tables != nullptr ? options.tables->rows_here(rows) : IndexRange{0, rows};
  return rows_in_memory(
      normal_table(layer, rows, width, random, options.init_std, options.padding_idx, kept),
      RowSource::Part{kept.begin, rows});
}

}  // namespace

EmbeddingTable::EmbeddingTable(const char* layer, std::size_t rows, std::size_t width,
                               Random& random, const EmbeddingOptions& options)
    : EmbeddingTable(layer, new_rows(layer, rows, width, random, options), options, rows) {}

EmbeddingTable::EmbeddingTable(const char* layer, std::unique_ptr<RowSource> here,
                               const EmbeddingOptions& options, std::size_t rows)
    : weight(*this, "weight", std::move(here)), table_(&weight) {
  lookup_ = {.mode = options.mode,
             .padding_idx = options.padding_idx,
             .scale_grad_by_freq = options.scale_grad_by_freq,
             .dense_gradient = options.dense_gradient,
             .max_norm = options.max_norm,
             .norm_type = options.norm_type,
             .include_last_offset = options.include_last_offset,
             .kind = options.kind};
  const Shape& shape = weight.shape();
  const bool is_given = rows == 0;
  if (is_given && !shape.empty()) rows = shape[0];
  check_argument(shape.size() == 2 && rows > 0 && shape[1] > 0, layer, ": the table has shape ",
                 bracketed(shape), ", expected [rows, width], both above 0");
  check_lookup(layer, lookup_, rows);
  if (options.scale_by_sqrt_width) scale_ = std::sqrt(static_cast<real>(shape[1]));
  weight.set_trainable(!options.frozen);
  if (options.tables != nullptr) {
    check_argument(
        !is_given || !weight.is_in_memory() || options.tables->rows_here(rows).size() == rows,
        layer,
        ": got a table with all rows, but `tables` keeps only some of them here; "
        "expected a new table, or a table file");
    table_ = &options.tables->whole_table(weight, rows, lookup_);
    if (table_ != &weight) lookup_.max_norm = std::nullopt;  // tables->fetch() applies it
  }
  check_argument(!options.dense_gradient || table_->is_in_memory(), layer, ": got a table in ",
                 table_->source().location(), ", expected one in memory for dense_gradient");
}

Parameter& EmbeddingTable::on_tape(Parameter& parameter) const {
  return &parameter == &weight ? *table_ : parameter;
}

std::optional<RowNames> EmbeddingTable::row_names(const Parameter& of_table) const {
  if (&of_table != table_ || lookup_.kind == RowKind::kRow) return {};
  return RowNames{.kind = lookup_.kind};
}

Variable EmbeddingTable::scaled(const Variable& rows) const {
  return is_scaled() ? rows * scale_ : rows;
}

Variable Embedding::forward(Tape& tape, const Ids& ids) {
  return scaled(embedding(tape.parameter(table()), ids, lookup()));
}

Variable Embedding::forward(Tape& tape, const Ids& ids, const Variable& added) {
  const Variable table = tape.parameter(this->table());
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
                    double init_std, const std::optional<std::int32_t>& padding,
                    std::optional<IndexRange> kept_rows) {
  element_count({rows, width}, layer);
  check_argument(std::isfinite(init_std) && init_std >= 0, layer, ": init_std is ", init_std,
                 ", expected a finite number >= 0");
  const auto row = padding_row(layer, padding, rows);
  const std::size_t zeros = row ? static_cast<std::size_t>(*row) : rows;
  const IndexRange kept = kept_rows.value_or(IndexRange{0, rows});
  if (init_std == 0) return sparse_zeros({kept.size(), width});
  Tensor table = empty({kept.size(), width});
  // Draws in pieces to save memory. Random::normal draws groups of 16 values, and each piece except
  // the last consists of whole groups, so the pieces equal a single draw.
  constexpr std::size_t kPiece = 1024;  // rows, a multiple of 16
  for (std::size_t first = 0, last = 0; first < rows; first = last) {
    last = rows - first < 2 * kPiece ? rows : first + kPiece;
    Tensor piece = random.normal({last - first, width}, 0, init_std);
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
