#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad::kernels {
namespace {

using Entry = std::uint64_t;
using Entries = std::vector<Entry, PoolAllocator<Entry>>;

std::int32_t id_of(Entry entry) { return static_cast<std::int32_t>(entry >> 32); }

// Least significant digit first, eleven bits per pass, as many passes as the largest id needs.
void radix_sort(Entries& entries, std::uint32_t largest) {
  constexpr unsigned kDigit = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kDigit;
  Entries other(entries.size());
  for (unsigned shift = 0; shift < static_cast<unsigned>(std::bit_width(largest));
       shift += kDigit) {
    std::array<std::size_t, kBuckets> starts{};
    auto bucket = [shift](Entry entry) { return (entry >> (32 + shift)) & (kBuckets - 1); };
    for (const Entry entry : entries) ++starts[bucket(entry)];
    std::size_t total = 0;
    for (std::size_t& start : starts) start = std::exchange(total, total + start);
    for (const Entry entry : entries) other[starts[bucket(entry)]++] = entry;
    entries.swap(other);
  }
}

Entries sorted_entries(std::span<const std::int32_t> ids) {
  Entries entries(ids.size());
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    entries[i] = static_cast<Entry>(static_cast<std::uint32_t>(ids[i])) << 32 | i;
    largest = std::max(largest, ids[i]);
  }
  constexpr std::size_t kFewEntries = 512;  // below this, a comparison sort is faster
  if (ids.size() < kFewEntries) {
    std::sort(entries.begin(), entries.end());
  } else {
    radix_sort(entries, static_cast<std::uint32_t>(largest));
  }
  return entries;
}

}  // namespace

bool strictly_increasing(std::span<const std::int32_t> ids) {
  return std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
}

void check_table(std::string_view caller, const Shape& table) {
  check_argument(table.size() == 2, caller, ": the table has shape ", bracketed(table),
                 ", expected [rows, width]");
}

void check_ids(std::string_view caller, std::span<const std::int32_t> ids, const Shape& shape,
               std::size_t rows) {
  // All of them at once, in vector registers; as unsigned numbers, negative ids are the largest.
  std::uint32_t largest = 0;
  for (const std::int32_t id : ids) largest = std::max(largest, static_cast<std::uint32_t>(id));
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  if (ids.empty() || (largest < rows && largest <= kMost)) return;
  const auto wrong = std::find_if(ids.begin(), ids.end(), [rows](std::int32_t id) {
    return id < 0 || static_cast<std::size_t>(id) >= rows;
  });
  check_argument(false, caller, ": id ", *wrong, " at ",
                 bracketed(index_at(shape, static_cast<std::size_t>(wrong - ids.begin()))),
                 " is outside the table's ", rows, " rows");
}

void gather_rows(const real* table, std::size_t width, std::span<const std::int32_t> ids, real* out,
                 const Tensor* added) {
  const std::size_t count = added == nullptr || width == 0 ? 1 : added->size() / width;
  parallel_for(ids.size(), row_grain(width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (i + kRowsAhead < end)
        prefetch_row(table + static_cast<std::size_t>(ids[i + kRowsAhead]) * width, width);
      const real* row = table + static_cast<std::size_t>(ids[i]) * width;
      if (added == nullptr) {
        std::copy_n(row, width, out + i * width);
      } else {
        map_span(width, out + i * width, std::plus<>(), row, added->data() + i % count * width);
      }
    }
  });
}

void add_rows(real* rows, std::size_t width, std::size_t count, const Tensor& added) {
  parallel_for(count, row_grain(width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      real* to = rows + i * width;
      map_span(width, to, std::plus<>(), to, added.data() + i * width % added.size());
    }
  });
}

RowGroups::RowGroups(std::span<const std::int32_t> ids, std::optional<std::int32_t> left_out)
    : entries_(sorted_entries(ids)) {
  if (left_out)
    entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                  [&](Entry entry) { return id_of(entry) == *left_out; }),
                   entries_.end());
  indices.reserve(entries_.size());
  starts.reserve(entries_.size() + 1);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (i > 0 && id_of(entries_[i]) == id_of(entries_[i - 1])) continue;
    indices.push_back(id_of(entries_[i]));
    starts.push_back(i);
  }
  starts.push_back(entries_.size());
}

MergedRows merge_rows(std::span<const std::int32_t> ids, const Tensor& values,
                      std::optional<std::int32_t> left_out, bool mean) {
  const std::size_t width = values.shape().back();
  const real* rows = values.data();
  return sum_groups(
      RowGroups(ids, left_out), width, mean,
      [=](real* to, std::size_t position) { std::copy_n(rows + position * width, width, to); },
      [=](real* to, std::size_t position) {
        // Its own lambda instead of std::plus<>(), so that it is inlined here.
        map_span(
            width, to, [](const Simd& a, const Simd& b) { return a + b; }, to,
            rows + position * width);
      });
}

}  // namespace rowgrad::kernels
