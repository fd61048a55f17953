#pragma once

// Rows of a table [rows, width] picked by ids: gathered, and added together where an id occurs more
// than once.

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

/// Rows requested from memory ahead of their use: the processor cannot guess where ids lead.
constexpr std::size_t kRowsAhead = 4;

inline void prefetch_row(const real* row, std::size_t width) {
  constexpr std::size_t kLine = 64 / sizeof(real);
  for (std::size_t i = 0; i < width; i += kLine) __builtin_prefetch(row + i);
}

/// What lookups check. Both throw std::invalid_argument naming `caller`: check_table for a shape
/// that is not [rows, width]; check_ids for the first id that is none of the rows.
void check_table(std::string_view caller, const Shape& table);
void check_ids(std::string_view caller, const Ids& ids, std::size_t rows);

/// Rows that are added to others: row i of those gets row i % count of these.
struct AddedRows {
  const real* rows = nullptr;  // nothing is added
  std::size_t count = 1;
};

/// The rows of `added`, which may be null, to be added to `count` rows of `width` numbers. Throws
/// std::invalid_argument naming `caller` if they do not go into those a whole number of times.
AddedRows added_rows(std::string_view caller, const Tensor* added, std::size_t count,
                     std::size_t width);

/// out[i] = table[ids[i]] + added[i % added.count], rows of `width` numbers. Every id must be a row
/// of the table.
void gather_rows(const real* table, std::size_t width, std::span<const std::int32_t> ids, real* out,
                 const AddedRows& added = {});

/// rows[i] += added[i % added.count] for `count` rows; nothing if nothing is added.
void add_rows(real* rows, std::size_t width, std::size_t count, const AddedRows& added);

/// Distinct row numbers in rising order, and the sum of what was given for each: [rows, width].
struct MergedRows {
  std::vector<std::int32_t> numbers;
  Tensor values;
};

/// The places at which each id stands: for numbers[g], they are place(i) in rising order, with i
/// from starts[g] to starts[g + 1].
class RowGroups {
 public:
  /// Ids equal to `left_out` are in no group.
  RowGroups(std::span<const std::int32_t> ids, std::optional<std::int32_t> left_out);

  std::size_t place(std::size_t i) const { return entries_[i] & 0xFFFFFFFF; }

  std::vector<std::int32_t> numbers;
  std::vector<std::size_t> starts;

 private:
  // An id in the high half, its place in the low one: sorting keeps the order of equal ids.
  std::vector<std::uint64_t, PoolAllocator<std::uint64_t>> entries_;
};

/// For each id, calls set(to, place) for its first place and add(to, place) for the others in turn,
/// where `to` is the id's row of the result. With `mean`, each row is then divided by how often its
/// id occurs. A row is one thread's work, so the bits do not depend on the number of threads.
template <class Set, class Add>
MergedRows sum_groups(RowGroups groups, std::size_t width, bool mean, const Set& set,
                      const Add& add) {
  MergedRows merged{std::move(groups.numbers), {}};
  merged.values = empty({merged.numbers.size(), width});
  parallel_for(merged.numbers.size(), row_grain(width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      real* to = merged.values.data() + row * width;
      const std::size_t first = groups.starts[row];
      const std::size_t last = groups.starts[row + 1];
      set(to, groups.place(first));
      for (std::size_t i = first + 1; i < last; ++i) add(to, groups.place(i));
      if (mean && last - first > 1) {
        const Simd divisor(static_cast<real>(last - first));
        map_span(
            width, to, [&](const Simd& x) { return x / divisor; }, to);
      }
    }
  });
  return merged;
}

/// Whether ids are as those of merged rows: distinct, in rising order.
bool strictly_rising(std::span<const std::int32_t> ids);

/// Adds together the rows of `values` [..., width], one for each id, that have the same id: in the
/// order in which they stand there, whatever the number of threads. Rows with the id `left_out` are
/// dropped. With `mean`, each sum is divided by how often its id occurs.
MergedRows merge_rows(std::span<const std::int32_t> ids, const Tensor& values,
                      std::optional<std::int32_t> left_out = std::nullopt, bool mean = false);

}  // namespace rowgrad::kernels
