#pragma once

// Trained tables of vectors. Tables without rows or columns, or with more values than memory could
// hold, options that do not fit, and ids outside the table throw std::invalid_argument, and nothing
// changes.

#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

class TableFile;

struct EmbeddingOptions {
  /// The standard deviation of a new table's normal distribution, whose mean is 0. At 0 nothing is
  /// drawn, and a large table of zeros takes memory only for rows that change.
  double deviation = 1;
  /// Whether the output is multiplied by sqrt(width) (Vaswani et al. 2017, section 3.4).
  bool scale_by_sqrt_width = false;
  /// This row starts as zeros and is never trained; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is dense: that of the whole table, including zeros.
  bool dense_gradient = false;
  /// Whether the table is frozen: not trained at all.
  bool frozen = false;
  /// Looked-up rows with a larger norm are first scaled down to this norm.
  std::optional<double> max_norm = std::nullopt;
  /// The p of that norm: 1, 2 or infinity.
  double norm_type = 2;
};

/// A table of vectors, one per token: ids [...] of any shape → [..., width]. The gradient has only
/// the rows that were looked up, so the cost of a step does not depend on the size of the table.
/// Parameter: weight [rows, width].
class Embedding : public Layer {
 public:
  /// Draws a new table from normal(0, deviation).
  Embedding(std::size_t rows, std::size_t width, Random& random,
            const EmbeddingOptions& options = {});

  /// Uses an existing table [rows, width] unchanged, including the padding row.
  explicit Embedding(Tensor table, const EmbeddingOptions& options = {});

  /// Uses a table in a file unchanged, including the padding row: for tables larger than memory.
  /// The file must outlive the layer, be no other layer's, and the gradient not be dense.
  explicit Embedding(TableFile& table, const EmbeddingOptions& options = {});

  /// With max_norm, it changes rows of the table (also in evaluation mode and if frozen), and
  /// throws std::logic_error if it would have to do so after the table was read as a whole on this
  /// tape.
  Variable forward(Tape& tape, const Ids& ids);

  /// forward(tape, ids) + added, in one pass unless scale_by_sqrt_width is set: see embedding_add.
  Variable forward(Tape& tape, const Ids& ids, const Variable& added);

  /// Looks up one id: → [width].
  Variable forward(Tape& tape, std::int32_t id);

  /// Begins to read rows that will be looked up soon: see Parameter::read_ahead.
  void read_ahead(const Ids& ids) const { weight.read_ahead(ids.storage()); }

  Parameter weight;  // [rows, width]

 private:
  void set(const EmbeddingOptions& options);

  EmbeddingLookup lookup_;
  bool scale_by_sqrt_width_ = false;
};

/// The initial table: normal(0, deviation), with zeros in the padding row.
Tensor normal_table(const char* layer, std::size_t rows, std::size_t width, Random& random,
                    double deviation = 1,
                    const std::optional<std::int32_t>& padding = std::nullopt);

/// The checks that both layers make of their table: its shape, and in a file, that its gradient is
/// not to be dense.
void check_table(const char* layer, const Shape& shape);
void check_row_gradients(const char* layer, bool dense_gradient, const TableFile& table);

}  // namespace rowgrad
