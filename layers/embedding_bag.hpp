#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

class TableFile;

struct EmbeddingBagOptions {
  /// The standard deviation of a new table's normal distribution: see EmbeddingOptions.
  double deviation = 1;
  BagMode mode = BagMode::kMean;  // what becomes of a bag's rows
  /// This row starts as zeros, is ignored in bags and never trained; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs; not allowed with kMax.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is dense: that of the whole table, including zeros.
  bool dense_gradient = false;
  /// Whether the last offset is the end of the last bag instead of the start of another one.
  bool include_last_offset = false;
  /// Whether the table is frozen: not trained at all.
  bool frozen = false;
  /// Looked-up rows with a larger norm are first scaled down to this norm.
  std::optional<double> max_norm = std::nullopt;
  /// The p of that norm: 1, 2 or infinity.
  double norm_type = 2;
};

/// A table of vectors that reduces each bag of ids to the sum, mean or element-wise maximum of
/// their vectors: → [bags, width]. Equals an Embedding and a reduction of its output, without
/// keeping a row for each id. The gradient has only the rows that were looked up; with kMax, only
/// those that were largest in some column. Parameter: weight [rows, width].
class EmbeddingBag : public Layer {
 public:
  /// These make their table as Embedding's constructors do.
  EmbeddingBag(std::size_t rows, std::size_t width, Random& random,
               const EmbeddingBagOptions& options = {});
  explicit EmbeddingBag(Tensor table, const EmbeddingBagOptions& options = {});
  explicit EmbeddingBag(TableFile& table, const EmbeddingBagOptions& options = {});

  /// `forward(tape, {ids})` for ids [bags, length], `forward(tape, {ids, offsets})` for bags of any
  /// length: see embedding_bag() and, for max_norm, Embedding::forward.
  Variable forward(Tape& tape, Bags bags);

  Parameter weight;  // [rows, width]

 private:
  void set(const EmbeddingBagOptions& options);

  EmbeddingBagLookup lookup_;
};

}  // namespace rowgrad
