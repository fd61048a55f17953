#pragma once

// Rows of a table [rows, width] selected by ids: they are gathered, or summed by id.

#include <algorithm>
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

/// How many rows ahead to prefetch, as the processor cannot predict where ids lead: fewer if they
/// are wide, or they would be out of the cache again.
inline std::size_t rows_ahead(std::size_t width) {
  constexpr std::size_t kMostRows = 16, kMostNumbers = 16384;
  return std::clamp<std::size_t>(kMostNumbers / std::max<std::size_t>(width, 1), 1, kMostRows);
}

/// Prefetches a row into the second-level cache, which takes more requests at a time than the
/// first.
inline void prefetch_row(const real* row, std::size_t width) {
  constexpr std::size_t kLine = 64 / sizeof(real);
  for (std::size_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i, 0, 2);
  asm volatile("");  // GCC drops calls of functions that only prefetch, as without effect
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

/// Distinct row indices in increasing order, and a row of values for each: [indices, width].
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

/// The positions groups.position(i), first ≤ i < last, at which the id indices[row] occurs; or some
/// of them, where it occurs often.
struct RowGroup {
  const RowGroups& groups;
  std::size_t row;
  std::size_t first;
  std::size_t last;

  bool begins() const { return first == groups.starts[row]; }
  bool ends() const { return last == groups.starts[row + 1]; }
  std::size_t occurrences() const { return groups.starts[row + 1] - groups.starts[row]; }
};

/// Makes the row of each id: body(group, to), called with up to 64 of its positions at a time, in
/// order, adds to the row at `to` (which nobody has written to before the first of them) what is at
/// row_at(position). One thread makes a row: the bits do not depend on the number of threads.
MergedRows make_rows(RowGroups groups, std::size_t width, const auto& row_at, const auto& body) {
  constexpr std::size_t kMost = 64;
  MergedRows merged{std::move(groups.indices), empty({groups.starts.size() - 1, width})};
  const std::size_t ahead = rows_ahead(width);
  parallel_for(merged.indices.size(), row_grain(width), [&](std::size_t begin, std::size_t end) {
    const std::size_t limit = groups.starts[end];
    for (std::size_t row = begin, i = groups.starts[begin]; row < end; ++row)
      while (i < groups.starts[row + 1]) {
        const RowGroup group{groups, row, i, std::min(i + kMost, groups.starts[row + 1])};
        for (; i < group.last; ++i)
          if (i + ahead < limit) prefetch_row(row_at(groups.position(i + ahead)), width);
        body(group, merged.values.data() + row * width);
      }
  });
  return merged;
}

/// For each id, the sum over its positions, in order, of term(x, position) for each vector x of
/// row_at(position). With `mean`, it is divided by how often the id occurs.
MergedRows sum_groups(RowGroups groups, std::size_t width, bool mean, const auto& row_at,
                      const auto& term) {
  return make_rows(std::move(groups), width, row_at, [=](const RowGroup& group, real* to) {
    // N vectors at a time, from `v` on, whose sums stay in registers.
    const auto sum = [&]<std::size_t N>(const auto& v) {
      Simd sums[N];
      if (!group.begins())
        for (std::size_t k = 0; k < N; ++k) sums[k] = v.load(to + k * kLanes);
      for (std::size_t i = group.first; i < group.last; ++i) {
        const std::size_t position = group.groups.position(i);
        const real* const row = row_at(position);
        for (std::size_t k = 0; k < N; ++k) {
          const Simd x = term(v.load(row + k * kLanes), position);
          sums[k] = i == group.first && group.begins() ? x : sums[k] + x;
        }
      }
      for (std::size_t k = 0; k < N; ++k) {
        if (mean && group.ends() && group.occurrences() > 1)
          sums[k] /= Simd(static_cast<real>(group.occurrences()));
        v.store(sums[k], to + k * kLanes);
      }
    };
    constexpr std::size_t kTile = 4;
    std::size_t at = 0;
    for (; at + kTile * kLanes <= width; at += kTile * kLanes)
      sum.template operator()<kTile>(WholeVector{at});
    for_vectors(at, width, [&](const auto& v) { sum.template operator()<1>(v); });
  });
}

/// Whether ids are strictly increasing, like those of merged rows.
bool strictly_increasing(std::span<const std::int32_t> ids);

/// Sums the rows of `values` [..., width], one per id, that have the same id, in the order in which
/// they occur, for any number of threads. Rows with the id `left_out` are dropped. With `mean`,
/// each sum is divided by how often its id occurs.
MergedRows merge_rows(std::span<const std::int32_t> ids, const Tensor& values,
                      std::optional<std::int32_t> left_out = std::nullopt, bool mean = false);

}  // namespace rowgrad::kernels
