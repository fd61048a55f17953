#pragma once

// Rows of a table looked up by id, with a gradient of those rows alone.

#include <cstddef>
#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

struct EmbeddingLookup {
  std::optional<std::int32_t> padding =
      std::nullopt;                 // the row with this id gets no gradient; -1 is the last row
  bool scale_grad_by_freq = false;  // divide a row's gradient by how often its id occurs
  bool dense_gradient = false;      // the whole table's gradient, zeros included
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

/// What embedding_add checks of what is added: throws std::invalid_argument naming `caller` unless
/// its shape ends that of the rows looked up.
void check_added(const char* caller, const Shape& rows, const Shape& added);

/// What every lookup checks. Both throw std::invalid_argument naming `caller`, the id and how many
/// rows there are: padding_row, which gives the row that a padding id stands for (a negative one
/// counts from the end), for padding outside the rows; check_ids for the first id outside them.
std::optional<std::int32_t> padding_row(const char* caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows);
void check_ids(const char* caller, const Ids& ids, std::size_t rows);

}  // namespace rowgrad
