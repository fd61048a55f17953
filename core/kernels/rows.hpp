#pragma once

// Gathers rows of a table [rows, width] by id, and sums rows by id.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Returns how many rows to prefetch ahead, as the CPU cannot predict ids. Returns fewer for wide
/// rows, so that they stay in the cache.
inline std::size_t rows_ahead(std::size_t width) {
  constexpr std::size_t kMaxRows = 16, kMaxValues = 16384;
  return std::clamp<std::size_t>(kMaxValues / std::max<std::size_t>(width, 1), 1, kMaxRows);
}

/// Prefetches a row into the L2 cache, which takes more requests at a time than L1.
inline void prefetch_row(const real* row, std::size_t width) {
  constexpr std::size_t kLine = 64 / sizeof(real);
  for (std::size_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i, 0, 2);
  asm volatile("");  // otherwise GCC drops calls of this function
}

/// Throws std::invalid_argument, naming `caller`, unless the shape is [rows, width].
void check_table(std::string_view caller, const Shape& table);

/// Throws std::invalid_argument, naming `caller`, for the first id outside a table of `rows` rows
/// and for 2^32 ids or more. `shape` is the shape of `ids`.
void check_ids(std::string_view caller, std::span<const std::int32_t> ids, const Shape& shape,
               std::size_t rows);

/// Copies rows of `width` values: out[i] = table[ids[i]]. Unless `added` is null, adds row i % n of
/// its n rows. Requires: every id is inside the table.
void gather_rows(const real* table, std::size_t width, std::span<const std::int32_t> ids, real* out,
                 const Tensor* added = nullptr);

/// Adds row i % n of the n rows of `added` to row i of `rows`, for i < count.
void add_rows(real* rows, std::size_t width, std::size_t count, const Tensor& added);

/// Distinct row indices in increasing order, and a row of values for each index: [indices, width].
struct MergedRows {
  std::vector<std::int32_t> indices;
  Tensor values;
};

/// A view of the positions of ids, in increasing order for each id.
class RowPositions {
 public:
  /// Views entries whose low halves are positions.
  explicit RowPositions(std::span<const std::uint64_t> entries) : entries_(entries) {}

  std::size_t size() const { return entries_.size(); }
  std::size_t operator[](std::size_t i) const { return entries_[i] & 0xFFFFFFFF; }
  RowPositions part(std::size_t first, std::size_t count) const {
    return RowPositions(entries_.subspan(first, count));
  }

 private:
  std::span<const std::uint64_t> entries_;
};

/// Groups of equal ids: indices[g] is the id at position(i) for starts[g] ≤ i < starts[g + 1].
class RowGroups {
 public:
  /// Groups the ids that differ from `left_out`.
  RowGroups(std::span<const std::int32_t> ids, std::optional<std::int32_t> left_out);

  RowPositions positions() const { return RowPositions(entries_); }
  std::size_t position(std::size_t i) const { return positions()[i]; }

  std::vector<std::int32_t> indices;
  std::vector<std::size_t> starts;

 private:
  // Each entry has an id in the high half and its position in the low half.
  std::vector<std::uint64_t, PoolAllocator<std::uint64_t>> entries_;
};

/// The largest number of rows that are added one after another. More rows are summed as two halves,
/// so that the error grows with the logarithm of the number of rows (Higham 1993, "The accuracy of
/// floating point summation"), not linearly.
constexpr std::size_t kRunningSum = 32;

/// Returns the number of rows of memory that sum_halves() needs for `count` terms.
inline std::size_t halvings(std::size_t count) {
  return count <= kRunningSum ? 0
                              : static_cast<std::size_t>(std::bit_width((count - 1) / kRunningSum));
}

/// Computes to = Σ of the terms `first` to last − 1, which are rows of `width` values.
/// sum_few(first, last, to) writes the sum of up to kRunningSum terms to the row `to`.
void sum_halves(std::size_t first, std::size_t last, std::size_t width, real* to, real* memory,
                const auto& sum_few) {
  if (last - first <= kRunningSum) return sum_few(first, last, to);
  const std::size_t middle = first + (last - first) / 2;
  sum_halves(first, middle, width, to, memory, sum_few);
  sum_halves(middle, last, width, memory, memory + width, sum_few);
  map_span(width, to, std::plus<>(), to, memory);
}

/// Computes a row for each id. sum(positions, to) writes the contribution of up to kRunningSum
/// positions of an id to the row `to`. row_at(position) is the row to prefetch. With `mean`,
/// divides the row by the number of its positions. The bits do not depend on the number of threads.
MergedRows make_rows(RowGroups groups, std::size_t width, bool mean, const auto& row_at,
                     const auto& sum) {
  const RowPositions all = groups.positions();
  MergedRows merged{std::move(groups.indices), empty({groups.starts.size() - 1, width})};
  const std::size_t rows = merged.indices.size();
  const std::size_t memory_size = halvings(all.size()) * width;
  const std::size_t grain = row_grain(all.size() / std::max<std::size_t>(rows, 1) * width);
  Tensor memory = empty({range_count(rows, grain), memory_size});
  const std::size_t ahead = rows_ahead(width);
  parallel_for(rows, grain, [&](std::size_t begin, std::size_t end, std::size_t range) {
    const std::size_t limit = groups.starts[end];
    const auto sum_few = [&](std::size_t first, std::size_t last, real* to) {
      for (std::size_t i = first; i < last; ++i)
        if (i + ahead < limit) prefetch_row(row_at(all[i + ahead]), width);
      sum(all.part(first, last - first), to);
    };
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t first = groups.starts[row];
      const std::size_t last = groups.starts[row + 1];
      real* const to = merged.values.data() + row * width;
      if (last - first <= kRunningSum)
        sum_few(first, last, to);
      else
        sum_halves(first, last, width, to, memory.data() + range * memory_size, sum_few);
      if (!mean || last - first == 1) continue;
      const Simd count(static_cast<real>(last - first));
      map_span(
          width, to, [count](const Simd& x) { return x / count; }, to);
    }
  });
  return merged;
}

/// A row of one value, loaded into all lanes. A PartialVector would go through memory.
struct SingleValue {
  Simd load(const real* from) const { return Simd(*from); }
  void store(const Simd& x, real* to) const { store_partial(x, to, 1); }
};

/// Computes to = Σ term(x, i) over i < count, for each vector x of row_at(i), a row of `width`
/// values. Requires: count > 0, and `to` does not overlap the rows.
void sum_terms(std::size_t count, std::size_t width, const auto& row_at, const auto& term,
               real* to) {
  // Sums N vectors at a time, from `v` on, in registers.
  const auto sum = [&]<std::size_t N>(const auto& v) {
    Simd sums[N];
    for (std::size_t i = 0; i < count; ++i) {
      const real* const row = row_at(i);
      for (std::size_t k = 0; k < N; ++k) {
        const Simd x = term(v.load(row + k * kLanes), i);
        sums[k] = i == 0 ? x : sums[k] + x;
      }
    }
    for (std::size_t k = 0; k < N; ++k) v.store(sums[k], to + k * kLanes);
  };
  if (width == 1) return sum.template operator()<1>(SingleValue{});
  constexpr std::size_t kTile = 4;
  if (width < kTile * kLanes)
    return for_vectors(0, width, [&](const auto& v) { sum.template operator()<1>(v); });
  for (std::size_t at = 0; at < width; at += kTile * kLanes)  // the last tile may overlap another
    sum.template operator()<kTile>(WholeVector{std::min(at, width - kTile * kLanes)});
}

/// Sums term(x, position) over the positions of each id, for each vector x of row_at(position).
/// With `mean`, divides the sum by the number of positions.
MergedRows sum_groups(RowGroups groups, std::size_t width, bool mean, const auto& row_at,
                      const auto& term) {
  return make_rows(
      std::move(groups), width, mean, row_at, [=](const RowPositions& positions, real* to) {
        sum_terms(
            positions.size(), width, [&](std::size_t i) { return row_at(positions[i]); },
            [&](const Simd& x, std::size_t i) { return term(x, positions[i]); }, to);
      });
}

/// Returns true if ids are strictly increasing.
bool strictly_increasing(std::span<const std::int32_t> ids);

/// Sums the rows of `values` [..., width], one per id, that have the same id. Drops rows with the
/// id `left_out`. With `mean`, divides each sum by the number of its rows. The bits do not depend
/// on the number of threads.
MergedRows merge_rows(std::span<const std::int32_t> ids, const Tensor& values,
                      std::optional<std::int32_t> left_out = std::nullopt, bool mean = false);

}  // namespace rowgrad::kernels
