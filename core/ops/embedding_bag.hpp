#pragma once

// Bags of rows of a table, each reduced to one row, with a gradient of the looked-up rows only.

#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

enum class BagMode { kSum, kMean, kMax };

struct EmbeddingBagLookup {
  BagMode mode = BagMode::kMean;
  /// The row with this id is ignored and gets no gradient; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs; not allowed with kMax.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is dense: that of the whole table, including zeros.
  bool dense_gradient = false;
  /// Whether the last offset is the end of the last bag instead of the start of another one.
  bool include_last_offset = false;
};

/// What to look up: ids [bags, length], one bag per row; or ids [count] with offsets, where a bag
/// extends from its offset to the next one, and the last bag to the end.
struct Bags {
  Ids ids;
  std::optional<Ids> offsets = std::nullopt;  // [bags], or [bags + 1] with include_last_offset
  /// Factors of the rows, of the shape of `ids`; only with kSum.
  std::optional<Variable> per_sample_weights = std::nullopt;
};

/// table [rows, width] → [bags, width]: for each bag, the sum, mean or element-wise maximum of the
/// rows of its ids, which is NaN if one of them is. A bag that is empty or all padding gives zeros.
/// Of several equal maxima, or NaNs, the first one gets the gradient.
///
/// The cost, forward and backward, depends only on the number of ids, not on the size of the table
/// (unless dense_gradient is set). Throws std::invalid_argument for ids or padding outside the
/// table; ids, offsets or weights of another shape; offsets that do not start at 0, that decrease,
/// or that lie beyond the ids; include_last_offset without offsets, or with a last offset that is
/// not the number of ids; weights without kSum; and scale_grad_by_freq with kMax.
Variable embedding_bag(const Variable& table, Bags bags, const EmbeddingBagLookup& options = {});

/// Throws what embedding_bag would throw; does nothing else.
void check_bags(const Variable& table, const Bags& bags, const EmbeddingBagLookup& options = {});

/// Throws std::invalid_argument naming `caller` for options that exclude each other and for a
/// padding id outside the rows.
void check_bag_options(const char* caller, const EmbeddingBagLookup& options, std::size_t rows);

}  // namespace rowgrad
