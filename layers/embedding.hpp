#pragma once

#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

struct EmbeddingOptions {
  /// Whether the output is multiplied by sqrt(width) (Vaswani et al. 2017, section 3.4).
  bool scale_by_sqrt_width = false;
  /// This row starts as zeros and is never trained; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is the whole table's instead of rows.
  bool dense_gradient = false;
  /// Whether the table is not trained at all.
  bool frozen = false;
  /// Rows that are looked up are first scaled down to this norm.
  std::optional<double> max_norm = std::nullopt;
  /// The p of that norm; may be infinity.
  double norm_type = 2;
};

/// A table of vectors, one a token: ids of any shape → ids' shape + [width]. Its gradient is that
/// of the rows that were looked up, and no step costs more for a larger table. Parameter: weight
/// [rows, width].
class Embedding : public Layer {
 public:
  /// Starts from normal(0, 1). Throws std::invalid_argument for no rows or columns, more numbers
  /// than memory could hold, a padding id outside the rows, and a max_norm or norm_type that is not
  /// above 0.
  Embedding(std::size_t rows, std::size_t width, Random& random,
            const EmbeddingOptions& options = {});

  /// Starts from an existing table [rows, width], kept as it is, the padding row too.
  explicit Embedding(Tensor table, const EmbeddingOptions& options = {});

  /// Throws std::invalid_argument for an id outside the table. With max_norm, it changes rows of
  /// the table (also in evaluation and if it is frozen), and throws std::logic_error if it would
  /// have to after the table was read as a whole on this tape, by a tied head, say.
  Variable forward(Tape& tape, const Ids& ids);

  /// forward(tape, ids) + added, in one pass over memory unless it is scaled: see embedding_add.
  Variable forward(Tape& tape, const Ids& ids, const Variable& added);

  /// One id → [width].
  Variable forward(Tape& tape, std::int32_t id);

  Parameter weight;

 private:
  // Does what a lookup begins with; returns the table.
  Variable begin_lookup(Tape& tape, const Ids& ids);
  EmbeddingLookup lookup() const;

  EmbeddingOptions options_;
};

/// What tables start from: normal(0, 1), zeros in the padding row. Throws std::invalid_argument
/// that names `layer` for a padding id outside the rows, and for more numbers than memory holds.
Tensor normal_table(const char* layer, std::size_t rows, std::size_t width, Random& random,
                    const std::optional<std::int32_t>& padding = std::nullopt);

}  // namespace rowgrad
