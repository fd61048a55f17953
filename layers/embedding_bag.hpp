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
  std::optional<std::int32_t> padding =
      std::nullopt;                 // starts as zeros, does not count, is not trained; -1: the last
  bool scale_grad_by_freq = false;  // divide a row's gradient by how often its id occurs; not kMax
  bool dense_gradient = false;      // a gradient of the whole table instead of rows
  bool include_last_offset = false;  // the last offset is the end of the last bag, not a beginning
  bool frozen = false;               // not trained at all
  std::optional<double> max_norm =
      std::nullopt;      // rows that are looked up are first scaled down to this norm
  double norm_type = 2;  // p of that norm; may be infinity
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
