#include <algorithm>
#include <array>
#include <bit>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad::kernels {
namespace {

// An id in the high half, its place in the low one: sorting keeps the order of equal ids.
using Entry = std::uint64_t;
using Entries = std::vector<Entry, PoolAllocator<Entry>>;

std::int32_t id_of(Entry entry) { return static_cast<std::int32_t>(entry >> 32); }
std::size_t place_of(Entry entry) { return entry & 0xFFFFFFFF; }

// Least significant digit first, eleven bits a pass, as many passes as the largest id needs.
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
  constexpr std::size_t kFewEntries = 512;  // below, a comparison sort is the faster one
  if (ids.size() < kFewEntries) {
    std::sort(entries.begin(), entries.end());
  } else {
    radix_sort(entries, static_cast<std::uint32_t>(largest));
  }
  return entries;
}

bool strictly_rising(std::span<const std::int32_t> ids) {
  return std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
}

}  // namespace

void gather_rows(const real* table, std::size_t width, std::span<const std::int32_t> ids,
                 real* out) {
  const std::size_t grain = row_grain(width);
  parallel_for(ids.size(), grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (i + kRowsAhead < end)
        prefetch_row(table + static_cast<std::size_t>(ids[i + kRowsAhead]) * width, width);
      std::copy_n(table + static_cast<std::size_t>(ids[i]) * width, width, out + i * width);
    }
  });
}

MergedRows merge_rows(std::span<const std::int32_t> ids, Tensor values,
                      std::optional<std::int32_t> left_out, bool mean) {
  const std::size_t width = values.shape().back();
  if (!left_out && !ids.empty() && strictly_rising(ids)) {
    values.reshape(Shape{ids.size(), width});
    return {{ids.begin(), ids.end()}, std::move(values)};
  }

  Entries entries = sorted_entries(ids);
  if (left_out)
    entries.erase(std::remove_if(entries.begin(), entries.end(),
                                 [&](Entry entry) { return id_of(entry) == *left_out; }),
                  entries.end());
  MergedRows merged;
  std::vector<std::size_t> starts;  // where each distinct id's entries begin
  merged.numbers.reserve(entries.size());
  starts.reserve(entries.size() + 1);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i > 0 && id_of(entries[i]) == id_of(entries[i - 1])) continue;
    merged.numbers.push_back(id_of(entries[i]));
    starts.push_back(i);
  }
  starts.push_back(entries.size());

  merged.values = empty({merged.numbers.size(), width});
  const std::size_t grain = row_grain(width);
  parallel_for(merged.numbers.size(), grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      real* to = merged.values.data() + row * width;
      const std::size_t first = starts[row];
      const std::size_t last = starts[row + 1];
      std::copy_n(values.data() + place_of(entries[first]) * width, width, to);
      for (std::size_t i = first + 1; i < last; ++i)
        map_span(
            width, to, [](const Simd& a, const Simd& b) { return a + b; }, to,
            values.data() + place_of(entries[i]) * width);
      if (mean && last - first > 1) {
        const Simd divisor(static_cast<real>(last - first));
        map_span(
            width, to, [&](const Simd& x) { return x / divisor; }, to);
      }
    }
  });
  return merged;
}

}  // namespace rowgrad::kernels
