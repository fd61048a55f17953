#pragma once

// Trained tables of vectors. Invalid options, ids outside the table, and tables that are empty or
// too large for memory throw std::invalid_argument, and nothing changes.

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
  /// The standard deviation of a new table's normal distribution, whose mean is 0. At 0, nothing is
  /// drawn, and a large table takes memory only for the rows that change.
  double init_std = 1;
  /// The reduction of a bag's rows; only for EmbeddingBag.
  BagMode mode = BagMode::kMean;
  /// If true, the output is multiplied by sqrt(width) (Vaswani et al. 2017, section 3.4).
  bool scale_by_sqrt_width = false;
  // EmbeddingLookup describes the options without a comment.
  /// This row starts as zeros and gets no gradient from lookups; bags ignore it. As in PyTorch,
  /// weight decay and a tied head still change it.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  bool scale_grad_by_freq = false;
  bool dense_gradient = false;
  bool include_last_offset = false;
  RowKind kind = RowKind::kRow;
  /// If true, the table is frozen.
  bool frozen = false;
  /// Decides which rows this process stores, trains and saves; null for all rows. Rows must be
  /// fetched before they are looked up: see Model::lookups.
  TablePlacement* tables = nullptr;
  std::optional<double> max_norm = std::nullopt;
  double norm_type = 2;
};

/// Base class of Embedding, EmbeddingBag and PositionalEmbedding. Unless dense_gradient is set, the
/// gradient has only the looked-up rows, so the cost of a step does not depend on the table's size.
class EmbeddingTable : public Layer {
 public:
  /// Returns the lookup of `ids`, for Model::lookups.
  TableLookup lookup_of(const Ids& ids) const { return {table_, {ids.begin(), ids.end()}}; }

  /// Returns the lookup options.
  const EmbeddingLookup& lookup() const { return lookup_; }

  /// Returns the table [rows, width] that lookups read: `weight` itself unless it is a shard.
  Parameter& table() const { return *table_; }
  Parameter& on_tape(Parameter& parameter) const override;

  /// Returns the kind of the table's rows; nullopt for kRow or other tables.
  std::optional<RowNames> row_names(const Parameter& of_table) const override;

  Parameter weight;  // [rows of this process, width]

 protected:
  /// Draws a new table as Embedding does. Messages start with `layer`.
  EmbeddingTable(const char* layer, std::size_t rows, std::size_t width, Random& random,
                 const EmbeddingOptions& options);
  /// Uses the rows `here`. `rows` is the total of all processes, or 0 for existing tables.
  EmbeddingTable(const char* layer, std::unique_ptr<RowSource> here,
                 const EmbeddingOptions& options, std::size_t rows = 0);

  bool is_scaled() const { return scale_ != 1; }  // returns true if scaled() has an effect
  Variable scaled(const Variable& rows) const;    // returns rows, times sqrt(width) if is_scaled()

 private:
  Parameter* table_;
  EmbeddingLookup lookup_;
  real scale_ = 1;
};

/// A table of vectors, one for each id: ids [...] of any shape → [..., width]. Parameter: weight
/// [rows, width].
class Embedding : public EmbeddingTable {
 public:
  /// Draws a new table from normal(0, init_std).
  Embedding(std::size_t rows, std::size_t width, Random& random,
            const EmbeddingOptions& options = {})
      : EmbeddingTable("Embedding", rows, width, random, options) {}

  /// Uses an existing table [rows, width] unchanged, including the padding row.
  explicit Embedding(Tensor table, const EmbeddingOptions& options = {})
      : EmbeddingTable("Embedding", rows_in_memory(std::move(table)), options) {}

  /// Uses a table file unchanged, including the padding row: for tables larger than memory. The
  /// file must outlive the layer and belong to no other layer. Dense gradients are not allowed.
  explicit Embedding(TableFile& table, const EmbeddingOptions& options = {})
      : EmbeddingTable("Embedding", file_rows(table), options) {}

  /// Looks up ids. With max_norm, changes rows of the table, even if frozen or in evaluation mode.
  /// Throws std::logic_error if a row would change after this tape has read the whole table.
  Variable forward(Tape& tape, const Ids& ids);

  /// Returns forward(tape, ids) + added, in one pass unless scale_by_sqrt_width is set.
  Variable forward(Tape& tape, const Ids& ids, const Variable& added);

  /// Returns the row [width] of one id.
  Variable forward(Tape& tape, std::int32_t id);
};

/// Returns an initial table: normal(0, init_std), with zeros in the padding row. Only the rows
/// `kept` are returned; the default is all.
Tensor normal_table(const char* layer, std::size_t rows, std::size_t width, Random& random,
                    double init_std = 1, const std::optional<std::int32_t>& padding = std::nullopt,
                    std::optional<IndexRange> kept = std::nullopt);

}  // namespace rowgrad
