#pragma once

// Trained tables of vectors. Tables without rows or columns, or with more values than memory could
// hold, options that do not fit, and ids outside the table throw std::invalid_argument, and nothing
// changes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/ops/table_placement.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

class TableFile;
std::unique_ptr<RowSource> file_rows(TableFile& file);

/// Options of Embedding, EmbeddingBag and PositionalEmbedding.
struct EmbeddingOptions {
  /// The standard init_std of a new table's normal distribution, whose mean is 0. At 0 nothing is
  /// drawn, and a large table of zeros takes memory only for rows that change.
  double init_std = 1;
  /// What becomes of the rows of a bag: of EmbeddingBag.
  BagMode mode = BagMode::kMean;
  /// Whether the output is multiplied by sqrt(width) (Vaswani et al. 2017, section 3.4).
  bool scale_by_sqrt_width = false;
  // The next ones, but for `frozen`, are those of EmbeddingLookup.
  /// This row starts as zeros, and lookups give it no gradient; bags ignore it. As in PyTorch,
  /// weight decay and a tied head change it nevertheless.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  bool scale_grad_by_freq = false;
  bool dense_gradient = false;
  bool include_last_offset = false;
  RowKind kind = RowKind::kRow;
  /// Whether the table is frozen: not trained at all.
  bool frozen = false;
  /// Decides which of the rows this process draws, trains and saves, or has in its file; null for
  /// all of them. Rows have to be fetched before they are looked up: see Model::lookups.
  TablePlacement* tables = nullptr;
  std::optional<double> max_norm = std::nullopt;
  double norm_type = 2;
};

/// The table of an Embedding, an EmbeddingBag or a PositionalEmbedding. The gradient has only the
/// rows that were looked up, so the cost of a step does not depend on the size of the table.
class EmbeddingTable : public Layer {
 public:
  /// The lookup of these ids, for Model::lookups.
  TableLookup lookup_of(const Ids& ids) const { return {table_, {ids.begin(), ids.end()}}; }

  /// The options of its lookups.
  const EmbeddingLookup& lookup() const { return lookup_; }

  /// The table that lookups read, [rows, width]: `weight`, unless other processes have some rows.
  Parameter& table() const { return *table_; }
  Parameter& on_tape(Parameter& parameter) const override;

  /// Names the kind of the table's rows, unless it is kRow.
  std::optional<RowNames> row_names(const Parameter& of_table) const override;

  Parameter weight;  // [rows, width], those rows that this process has

 protected:
  /// See Embedding's constructors; `layer` is the name for messages.
  EmbeddingTable(const char* layer, std::size_t rows, std::size_t width, Random& random,
                 const EmbeddingOptions& options);
  /// Uses existing rows. There are `rows` in all processes together; 0 if all of them are here.
  EmbeddingTable(const char* layer, std::unique_ptr<RowSource> here,
                 const EmbeddingOptions& options, std::size_t rows = 0);

  bool is_scaled() const { return scale_ != 1; }  // whether scale_by_sqrt_width changes anything
  Variable scaled(const Variable& rows) const;    // by sqrt(width), if that was asked for

 private:
  Parameter* table_;
  EmbeddingLookup lookup_;
  real scale_ = 1;
};

/// A table of vectors, one per token: ids [...] of any shape → [..., width].
/// Parameter: weight [rows, width].
class Embedding : public EmbeddingTable {
 public:
  /// Draws a new table from normal(0, init_std).
  Embedding(std::size_t rows, std::size_t width, Random& random,
            const EmbeddingOptions& options = {})
      : EmbeddingTable("Embedding", rows, width, random, options) {}

  /// Uses an existing table [rows, width] unchanged, including the padding row.
  explicit Embedding(Tensor table, const EmbeddingOptions& options = {})
      : EmbeddingTable("Embedding", rows_in_memory(std::move(table)), options) {}

  /// Uses a table in a file unchanged, including the padding row: for tables larger than memory.
  /// The file must outlive the layer, be no other layer's, and the gradient not be dense.
  explicit Embedding(TableFile& table, const EmbeddingOptions& options = {})
      : EmbeddingTable("Embedding", file_rows(table), options) {}

  /// With max_norm, it changes rows of the table (also in evaluation mode and if frozen), and
  /// throws std::logic_error if it would have to do so after the table was read as a whole on this
  /// tape.
  Variable forward(Tape& tape, const Ids& ids);

  /// forward(tape, ids) + added, in one pass unless scale_by_sqrt_width is set: see embedding_add.
  Variable forward(Tape& tape, const Ids& ids, const Variable& added);

  /// Looks up one id: → [width].
  Variable forward(Tape& tape, std::int32_t id);
};

/// The initial table: normal(0, init_std), with zeros in the padding row. If only some of its rows
/// are `kept`, there is no memory for others.
Tensor normal_table(const char* layer, std::size_t rows, std::size_t width, Random& random,
                    double init_std = 1, const std::optional<std::int32_t>& padding = std::nullopt,
                    std::optional<IndexRange> kept = std::nullopt);

}  // namespace rowgrad
