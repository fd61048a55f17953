#pragma once

// Row lookups in a table, with a gradient of the looked-up rows only.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

struct EmbeddingLookup {
  /// The row with this id gets no gradient; −1 is the last row.
  std::optional<std::int32_t> padding_idx = std::nullopt;
  /// Whether a row's gradient is divided by how often its id occurs.
  bool scale_grad_by_freq = false;
  /// Whether the gradient is dense: that of the whole table, including zeros.
  bool dense_gradient = false;
};

/// table [rows, width], ids [...] of any shape → [..., width]. The cost, forward and backward,
/// depends only on the number of ids, not on the size of the table (unless dense_gradient is set).
/// Throws std::invalid_argument naming the first id outside the table and its place, or a padding
/// id outside it.
Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options = {});

/// embedding(table, ids, options) + added, in one pass over memory. The shape of `added` is that of
/// the result's last axes (such as positions [length, width] for ids [..., length]). Throws what
/// embedding throws, and std::invalid_argument for `added` of another shape.
Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options = {});

/// For ops that look up rows: the rows of `table` [rows, width] for ids [...] → [..., width], plus
/// `added`, if given, which has the shape of the result's last axes. If the table is a parameter,
/// other rows are neither read nor brought up to date. Throws std::invalid_argument naming `caller`
/// for a table of another rank, the first id outside it, and `added` of another shape.
Tensor look_up(std::string_view caller, const Variable& table, const Ids& ids,
               const Tensor* added = nullptr);

/// Throws std::invalid_argument naming `caller` unless the shape `added` is a suffix of `rows`.
void check_added(std::string_view caller, const Shape& rows, const Shape& added);

/// The index of the padding row; negative ids count from the end. Throws std::invalid_argument
/// naming `caller`, the id and the number of rows for an id outside the table.
std::optional<std::int32_t> padding_row(const char* caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows);

}  // namespace rowgrad
