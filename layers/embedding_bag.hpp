#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/embedding_bag.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

struct EmbeddingBagOptions {
  BagMode mode = BagMode::kMean;
  /// This row starts as zeros, does not count and is never trained; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs; not with kMax.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is the whole table's instead of rows.
  bool dense_gradient = false;
  /// Whether the last offset is the end of the last bag, not the beginning of one more.
  bool include_last_offset = false;
  /// Whether the table is not trained at all.
  bool frozen = false;
  /// Rows that are looked up are first scaled down to this norm.
  std::optional<double> max_norm = std::nullopt;
  /// The p of that norm; may be infinity.
  double norm_type = 2;
};

/// A table of vectors and, of each bag of ids, the sum, mean or largest of their vectors: → [bags,
/// width]. What an Embedding and a reduction of its output give, without keeping a row for each id.
/// Its gradient is that of the rows that were looked up, with kMax of those that were the largest.
/// Parameter: weight [rows, width].
class EmbeddingBag : public Layer {
 public:
  /// Starts from normal(0, 1). Throws std::invalid_argument for no rows or columns, more numbers
  /// than memory could hold, a padding id outside the rows, scale_grad_by_freq with kMax, and a
  /// max_norm or norm_type not above 0.
  EmbeddingBag(std::size_t rows, std::size_t width, Random& random,
               const EmbeddingBagOptions& options = {});

  /// Starts from an existing table [rows, width], kept as it is, the padding row too.
  explicit EmbeddingBag(Tensor table, const EmbeddingBagOptions& options = {});

  /// `forward(tape, {ids})` for ids [bags, length], `forward(tape, {ids, offsets})` for bags of any
  /// length. Throws what embedding_bag throws, and with max_norm what Embedding does.
  Variable forward(Tape& tape, Bags bags);

  Parameter weight;

 private:
  EmbeddingBagLookup lookup_;
  std::optional<double> max_norm_;
  double norm_type_;
};

}  // namespace rowgrad
