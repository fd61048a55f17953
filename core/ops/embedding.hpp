#pragma once

// Row lookups in a table [rows, width], with a gradient of the looked-up rows only, each alone or
// in bags. The cost, forward and backward, depends only on the number of ids, not on the size of
// the table (unless dense_gradient is set).
//
// Everything is checked before anything changes: std::invalid_argument names the op and what does
// not fit, such as the first id outside the table and its index.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

/// What becomes of a bag's rows.
enum class BagMode {
  kSum,   // the sum, with per_sample_weights if they are given
  kMean,  // the mean over ids that are no padding; zeros if there are none
  kMax    // the maximum of each column
};

/// Options of lookups. `mode` and `include_last_offset` are for bags: embedding() and
/// embedding_add() refuse them.
struct EmbeddingLookup {
  BagMode mode = BagMode::kMean;  // what becomes of the rows of a bag
  /// The row with this id gets no gradient, and bags ignore it; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs; not allowed with kMax.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is dense: that of the whole table, including zeros.
  bool dense_gradient = false;
  /// Rows whose norm (Σ |w|^p)^(1/p), p = norm_type, is larger are first scaled down to it, in the
  /// table, which must be a parameter. If it was read as a whole on this tape before, for example
  /// by a tied head, std::logic_error is thrown, as the gradients of that read would belong to
  /// other values. Processes that train together would each scale other rows: see TablePlacement.
  std::optional<double> max_norm = std::nullopt;
  /// The p of max_norm's norm: 1, 2, or infinity, which takes the largest |w|.
  double norm_type = 2;
  /// Whether the last offset is the end of the last bag instead of the start of another one.
  bool include_last_offset = false;
  /// What the rows stand for, for callbacks.
  RowKind kind = RowKind::kRow;
  /// The tokens that look these rows up, for callbacks. By default, these are the ids if the rows
  /// are tokens, unless the ids are bags with offsets, which do not show where a text ends. The
  /// shape consists of the first axes of the ids: tokens [batch, length] for ids [batch, length,
  /// n].
  std::optional<Ids> tokens = std::nullopt;
};

/// ids [...] of any shape → [..., width]. The gradient of a row is as exact as sum(), however often
/// the row is looked up.
Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options = {});

/// embedding(table, ids, options) + added, in one pass over memory. The shape of `added` is that of
/// the result's last axes (such as positions [length, width] for ids [..., length]).
Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options = {});

/// What to look up: ids [bags, length], one bag per row; or ids [count] with offsets, where a bag
/// extends from its offset to the next one, and the last bag to the end.
struct Bags {
  Ids ids;  // row numbers
  /// [bags], or [bags + 1] with include_last_offset; they start at 0 and do not decrease.
  std::optional<Ids> offsets = std::nullopt;
  /// Factors of the rows, of the shape of `ids`; only with kSum.
  std::optional<Variable> per_sample_weights = std::nullopt;
};

/// → [bags, width]: for each bag, the sum, mean or element-wise maximum of the rows of its ids,
/// which is NaN if one of them is. A bag that is empty or all padding gives zeros. Of several equal
/// maxima, or NaNs, the first one gets the gradient.
Variable embedding_bag(const Variable& table, Bags bags, const EmbeddingLookup& options = {});

/// Returns copies of the rows `ids` [...] of a table for an op: → [..., width]. If the table is a
/// parameter, the tape records the lookup, and the table may change before backward(). Rows above
/// max_norm are scaled down first; other rows are neither read nor brought up to date. `added`, if
/// given, is added to the rows; its shape is that of the result's last axes.
Tensor read_rows(std::string_view op, const Variable& table, std::shared_ptr<const Ids> ids,
                 const EmbeddingLookup& options = {}, const Tensor* added = nullptr);
inline Tensor read_rows(std::string_view op, const Variable& table, const Ids& ids,
                        const EmbeddingLookup& options = {}) {
  return read_rows(op, table, std::make_shared<const Ids>(ids), options);
}

/// Checks the shape and the tape of what is to be added to the rows of ids.
void check_added(std::string_view caller, const Variable& table, const Ids& ids,
                 const Variable& added);

/// The index of the padding row, for negative ids too, if there is one.
std::optional<std::int32_t> padding_row(std::string_view caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows);

/// Checks the options of lookups in a table of so many rows.
void check_lookup(std::string_view caller, const EmbeddingLookup& options, std::size_t rows);

}  // namespace rowgrad
