#pragma once

// Lookups of rows in a table [rows, width], one row or a bag of rows at a time, with a gradient for
// the looked-up rows only. The cost, forward and backward, depends on the number of ids, not on the
// size of the table (unless dense_gradient is set).
//
// Invalid arguments throw std::invalid_argument before anything changes. The message names the op
// and the fault, such as the first id that is out of range and its position.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <rowgrad/core/autograd/tape.hpp>

namespace rowgrad {

/// The reduction of the rows of a bag.
enum class BagMode {
  kSum,   // element-wise sum, weighted with per_sample_weights if given
  kMean,  // element-wise mean
  kMax    // element-wise maximum
};

/// Options of lookups. `mode` and `include_last_offset` are for bags: embedding() and
/// embedding_add() require their defaults.
struct EmbeddingLookup {
  BagMode mode = BagMode::kMean;  // reduction of bags
  /// The row with this id gets no gradient, and bags ignore it. −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// If true, divides the gradient of each row by the number of times its id occurs. Requires a
  /// mode other than kMax.
  bool scale_grad_by_freq = false;
  /// If true, the gradient is a dense tensor of the shape of the table.
  bool dense_gradient = false;
  /// If set, looked-up rows with a larger norm (Σ |w|^p)^(1/p), p = norm_type, are scaled down to
  /// max_norm. The rows change in the table, which must be a parameter. Throws std::logic_error if
  /// rows must change after this tape has read the whole table (as in a tied head). Ranks that
  /// train together need a TablePlacement.
  std::optional<double> max_norm = std::nullopt;
  /// The p of max_norm: 1, 2 or infinity (the largest |w|).
  double norm_type = 2;
  /// If true, the last offset is the end of the last bag, not the start of another one.
  bool include_last_offset = false;
  /// The kind of the rows, for callbacks.
  RowKind kind = RowKind::kRow;
  /// The tokens from which the ids were computed, for callbacks. Defaults to the ids if the rows
  /// are tokens, except for bags with offsets, whose ids may span documents. Tokens must have the
  /// first axes of the ids: tokens [batch, length] for ids [batch, length, n].
  std::optional<Ids> tokens = std::nullopt;
};

/// Looks up ids [...] → [..., width]. The gradient of a row that is looked up many times is as
/// accurate as sum().
Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options = {});

/// Computes embedding(table, ids, options) + added in one pass over memory. The shape of `added`
/// must equal the last axes of the result (such as positions [length, width] for ids [...,
/// length]).
Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options = {});

/// The bags to look up: ids [bags, length], one bag per row; or ids [count] with offsets, where
/// each bag extends from its offset to the next one, and the last bag to the end.
struct Bags {
  Ids ids;  // indices of rows
  /// [bags], or [bags + 1] with include_last_offset. Offsets must start at 0 and not decrease.
  std::optional<Ids> offsets = std::nullopt;
  /// Factors of the rows, of the shape of `ids`. Requires kSum.
  std::optional<Variable> per_sample_weights = std::nullopt;
};

/// Returns the sum, mean or element-wise maximum of the rows of each bag: [bags, width]. A bag that
/// is empty or all padding gives zeros. The maximum is NaN if an element is NaN. The gradient of a
/// maximum goes to the first of several equal maxima or NaNs.
Variable embedding_bag(const Variable& table, Bags bags, const EmbeddingLookup& options = {});

/// Copies the rows `ids` [...] of a table → [..., width], for custom ops. If the table is a
/// parameter, the tape records the lookup, and the table may change before backward(). Rows above
/// max_norm are scaled down first. Rows that are not in `ids` are neither read nor brought up to
/// date. Adds `added`, if given; its shape must equal the last axes of the result.
Tensor read_rows(std::string_view op, const Variable& table, std::shared_ptr<const Ids> ids,
                 const EmbeddingLookup& options = {}, const Tensor* added = nullptr);
inline Tensor read_rows(std::string_view op, const Variable& table, const Ids& ids,
                        const EmbeddingLookup& options = {}) {
  return read_rows(op, table, std::make_shared<const Ids>(ids), options);
}

/// Checks the shape and the tape of `added`, as embedding_add() does.
void check_added(std::string_view caller, const Variable& table, const Ids& ids,
                 const Variable& added);

/// Returns the index of the padding row, if any. Negative ids count from the end.
std::optional<std::int32_t> padding_row(std::string_view caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows);

/// Returns the start of each bag of ids [count] with offsets [bags], or [bags + 1] with
/// `include_last_offset`, and the end of the last bag.
std::vector<std::size_t> bag_starts(std::string_view caller, const Ids& ids, const Ids& offsets,
                                    bool include_last_offset = false);

/// Checks the options of a lookup in a table with `rows` rows.
void check_lookup(std::string_view caller, const EmbeddingLookup& options, std::size_t rows);

}  // namespace rowgrad
