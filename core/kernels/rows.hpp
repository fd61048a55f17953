#pragma once

// Rows of a table [rows, width] selected by ids: they are gathered, or summed by id.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// How many rows ahead to prefetch: the processor cannot predict where ids lead.
constexpr std::size_t kRowsAhead = 4;

inline void prefetch_row(const real* row, std::size_t width) {
  constexpr std::size_t kLine = 64 / sizeof(real);
  for (std::size_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i);
}

/// Checks for lookups. Both throw std::invalid_argument naming `caller`: check_table for a shape
/// that is not [rows, width], check_ids for the first id outside the table.
void check_table(std::string_view caller, const Shape& table);
void check_ids(std::string_view caller, std::span<const std::int32_t> ids, const Shape& shape,
               std::size_t rows);

/// out[i] = table[ids[i]], for rows of `width` values, plus row i modulo their number of those in
/// `added`, unless it is null. Every id must be inside the table.
void gather_rows(const real* table, std::size_t width, std::span<const std::int32_t> ids, real* out,
                 const Tensor* added = nullptr);

/// Adds to `count` rows those of `added`, row i modulo their number.
void add_rows(real* rows, std::size_t width, std::size_t count, const Tensor& added);

/// Distinct row indices in increasing order, and the sum of the values for each: [rows, width].
struct MergedRows {
  std::vector<std::int32_t> indices;
  Tensor values;
};

/// Where each id occurs: indices[g] is the id at position(i) for starts[g] ≤ i < starts[g + 1], in
/// increasing order.
class RowGroups {
 public:
  /// Ids equal to `left_out` are in no group.
  RowGroups(std::span<const std::int32_t> ids, std::optional<std::int32_t> left_out);

  std::size_t position(std::size_t i) const { return entries_[i] & 0xFFFFFFFF; }

  std::vector<std::int32_t> indices;
  std::vector<std::size_t> starts;

 private:
  // The id in the high half, its position in the low half: sorting keeps equal ids in order.
  std::vector<std::uint64_t, PoolAllocator<std::uint64_t>> entries_;
};

/// For each id, calls set(to, position) for its first position, then add(to, position) for the
/// others in order, where `to` is the id's row of the result. With `mean`, divides each row by how
/// often its id occurs. One thread computes a row: the bits do not depend on the number of threads.
template <class Set, class Add>
MergedRows sum_groups(RowGroups groups, std::size_t width, bool mean, const Set& set,
                      const Add& add) {
  MergedRows merged{std::move(groups.indices), {}};
  merged.values = empty({merged.indices.size(), width});
  parallel_for(merged.indices.size(), row_grain(width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      real* to = merged.values.data() + row * width;
      const std::size_t first = groups.starts[row];
      const std::size_t last = groups.starts[row + 1];
      set(to, groups.position(first));
      for (std::size_t i = first + 1; i < last; ++i) add(to, groups.position(i));
      if (mean && last - first > 1) {
        const Simd divisor(static_cast<real>(last - first));
        map_span(
            width, to, [&](const Simd& x) { return x / divisor; }, to);
      }
    }
  });
  return merged;
}

/// Whether ids are strictly increasing, like those of merged rows.
bool strictly_increasing(std::span<const std::int32_t> ids);

/// Sums the rows of `values` [..., width], one per id, that have the same id, in the order in which
/// they occur, for any number of threads. Rows with the id `left_out` are dropped. With `mean`,
/// each sum is divided by how often its id occurs.
MergedRows merge_rows(std::span<const std::int32_t> ids, const Tensor& values,
                      std::optional<std::int32_t> left_out = std::nullopt, bool mean = false);

}  // namespace rowgrad::kernels
