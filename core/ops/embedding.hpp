#pragma once

// Rows of a table looked up by id, with a gradient of those rows alone.

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
  /// Whether the gradient is the whole table's, zeros included.
  bool dense_gradient = false;
};

/// table [rows, width], ids of any shape → ids' shape + [width]. What it costs, forward and
/// backward, depends on the ids alone, not on the table's rows (unless dense_gradient is asked
/// for). Throws std::invalid_argument naming the first id outside the table and its place,
/// or a padding id outside it.
Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options = {});

/// embedding(table, ids, options) + added, in one pass over memory: the shape of `added` ends that
/// of the result (positions [length, width] for ids [..., length]). Throws like embedding, and
/// std::invalid_argument for another shape of `added`.
Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options = {});

/// For ops that look rows up: the rows of `table` [rows, width] at ids of any shape → their shape +
/// [width]. Of a parameter, the other rows are not read, nor brought up to date. `added`, whose
/// shape ends that of the result, is added to them. Throws std::invalid_argument naming `caller`
/// for what is no table, the first id outside it, and another shape of `added`.
Tensor look_up(std::string_view caller, const Variable& table, const Ids& ids,
               const Tensor* added = nullptr);

/// Throws std::invalid_argument naming `caller` if the shape of what is added does not end that of
/// the rows.
void check_added(std::string_view caller, const Shape& rows, const Shape& added);

/// The row that a padding id stands for: a negative one counts from the end. Throws
/// std::invalid_argument naming `caller`, the id and how many rows there are for one outside them.
std::optional<std::int32_t> padding_row(const char* caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows);

}  // namespace rowgrad
