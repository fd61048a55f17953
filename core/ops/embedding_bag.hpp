#pragma once

// Bags of rows of a table, each reduced to one row, with a gradient of the looked-up rows alone.

#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

enum class BagMode { kSum, kMean, kMax };

struct EmbeddingBagLookup {
  BagMode mode = BagMode::kMean;
  /// Ids that do not count and get no gradient; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs; not with kMax.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is the whole table's, zeros included.
  bool dense_gradient = false;
  /// Whether the last offset is the end of the last bag, not the beginning of one more.
  bool include_last_offset = false;
};

/// What to look up: ids [bags, length], each row a bag; or ids [count] with offsets, where a bag
/// reaches from its offset to the next one, the last to the end.
struct Bags {
  Ids ids;
  std::optional<Ids> offsets = std::nullopt;  // [bags], one more with include_last_offset
  std::optional<Variable> per_sample_weights =
      std::nullopt;  // of the ids' shape, factors of the rows; only with kSum
};

/// table [rows, width] → [bags, width]: of each bag, the sum, the mean or, column by column, the
/// largest of the rows of its ids. A bag without ids that count gives zeros. Where rows are equally
/// large, the first one is the largest and gets the gradient.
///
/// What it costs, forward and backward, depends on the ids alone, not on the table's rows (unless
/// dense_gradient is asked for). Throws std::invalid_argument for ids or padding outside the table,
/// ids, offsets or weights of another shape, offsets that do not start at 0, fall, or lie beyond
/// the ids, a last one that does not end them with include_last_offset, that option without
/// offsets, weights without kSum, and scale_grad_by_freq with kMax.
Variable embedding_bag(const Variable& table, Bags bags, const EmbeddingBagLookup& options = {});

/// Throws what embedding_bag would, and does nothing else.
void check_bags(const Variable& table, const Bags& bags, const EmbeddingBagLookup& options = {});

/// Throws std::invalid_argument naming `caller` for options that exclude each other or a padding id
/// outside the rows.
void check_bag_options(const char* caller, const EmbeddingBagLookup& options, std::size_t rows);

}  // namespace rowgrad
