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

/// The row that a padding id stands for: a negative one counts from the end. Throws
/// std::invalid_argument naming `caller`, the id and how many rows there are for one outside them.
std::optional<std::int32_t> padding_row(const char* caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows);

}  // namespace rowgrad
