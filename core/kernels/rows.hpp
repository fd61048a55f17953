#pragma once

// Rows of a table [rows, width] picked by ids: gathered, and added together where an id occurs more
// than once.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Rows requested from memory ahead of their use: the processor cannot guess where ids lead.
constexpr std::size_t kRowsAhead = 4;

inline void prefetch_row(const real* row, std::size_t width) {
  constexpr std::size_t kLine = 64 / sizeof(real);
  for (std::size_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i);
}

/// out[i] = table[ids[i]], rows of `width` numbers. Every id must be a row of the table.
void gather_rows(const real* table, std::size_t width, std::span<const std::int32_t> ids,
                 real* out);

/// Distinct row numbers in rising order, and the sum of what was given for each: [rows, width].
struct MergedRows {
  std::vector<std::int32_t> numbers;
  Tensor values;
};

/// Adds together the rows of `values` [..., width], one for each id, that have the same id: in the
/// order in which they stand there, whatever the number of threads. Rows with the id `left_out` are
/// dropped. With `mean`, each sum is divided by how often its id occurs.
MergedRows merge_rows(std::span<const std::int32_t> ids, Tensor values,
                      std::optional<std::int32_t> left_out = std::nullopt, bool mean = false);

}  // namespace rowgrad::kernels
