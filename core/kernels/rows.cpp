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

Entry entry(std::int32_t id, std::size_t position) {
  return static_cast<Entry>(static_cast<std::uint32_t>(id)) << 32 | position;
}
std::int32_t id_of(Entry entry) { return static_cast<std::int32_t>(entry >> 32); }

// Returns the entries sorted by id. Uses a radix sort with digits of up to eleven bits, and as few
// passes as the largest id needs.
Entries radix_sorted(std::span<const std::int32_t> ids, std::uint32_t largest) {
  constexpr unsigned kMaxBits = 11;
  const auto bits = std::max(1U, static_cast<unsigned>(std::bit_width(largest)));
  const unsigned passes = (bits + kMaxBits - 1) / kMaxBits;
  const unsigned digit = (bits + passes - 1) / passes;
  Entries entries(ids.size()), other(passes > 1 ? ids.size() : 0);
  for (unsigned pass = 0; pass < passes; ++pass) {
    const auto bucket = [&](std::uint64_t id) {
      return (id >> (pass * digit)) & ((std::uint64_t{1} << digit) - 1);
    };
    std::array<std::uint32_t, std::size_t{1} << kMaxBits> starts{};
    for (const std::int32_t id : ids) ++starts[bucket(static_cast<std::uint32_t>(id))];
    std::uint32_t total = 0;
    for (std::uint32_t& start : starts) start = std::exchange(total, total + start);
    if (pass == 0) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        entries[starts[bucket(static_cast<std::uint32_t>(ids[i]))]++] = entry(ids[i], i);
    } else {
      for (const Entry e : entries) other[starts[bucket(e >> 32)]++] = e;
      entries.swap(other);
    }
  }
  return entries;
}

Entries sorted_entries(std::span<const std::int32_t> ids) {
  constexpr std::size_t kFewEntries = 512;  // below this, a comparison sort is faster
  if (ids.size() >= kFewEntries) {
    std::int32_t largest = 0;
    for (const std::int32_t id : ids) largest = std::max(largest, id);
    return radix_sorted(ids, static_cast<std::uint32_t>(largest));
  }
  Entries entries(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) entries[i] = entry(ids[i], i);
  std::sort(entries.begin(), entries.end());
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
  check_argument(ids.size() <= std::numeric_limits<std::uint32_t>::max(), caller, ": there are ",
                 ids.size(), " ids, expected fewer than 2^32");  // RowGroups uses 32-bit positions
  // This loop is vectorized. As unsigned integers, negative ids are the largest.
  std::uint32_t largest = 0;
  for (const std::int32_t id : ids) largest = std::max(largest, static_cast<std::uint32_t>(id));
  constexpr std::size_t kMax = std::numeric_limits<std::int32_t>::max();
  if (ids.empty() || (largest < rows && largest <= kMax)) return;
  const auto wrong = std::find_if(ids.begin(), ids.end(), [rows](std::int32_t id) {
    return id < 0 || static_cast<std::size_t>(id) >= rows;
  });
  check_argument(false, caller, ": id ", *wrong, " at ",
                 bracketed(index_at(shape, static_cast<std::size_t>(wrong - ids.begin()))),
                 " is out of range: the table has ", rows, " rows");
}

void gather_rows(const real* table, std::size_t width, std::span<const std::int32_t> ids, real* out,
                 const Tensor* added) {
  const std::size_t count = added == nullptr || width == 0 ? 1 : added->size() / width;
  const std::size_t ahead = rows_ahead(width);
  parallel_for(ids.size(), row_grain(width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (i + ahead < end)
        prefetch_row(table + static_cast<std::size_t>(ids[i + ahead]) * width, width);
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
  parallel_for_each(count, width, [&](std::size_t i) {
    real* to = rows + i * width;
    map_span(width, to, std::plus<>(), to, added.data() + i * width % added.size());
  });
}

RowGroups::RowGroups(std::span<const std::int32_t> ids, std::optional<std::int32_t> left_out)
    : entries_(sorted_entries(ids)) {
  if (left_out)
    entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                  [&](Entry entry) { return id_of(entry) == *left_out; }),
                   entries_.end());
  // Avoids an unpredictable branch by storing every entry. The next store overwrites an entry that
  // does not begin a group.
  indices.resize(entries_.size() + 1);
  starts.resize(entries_.size() + 1);
  std::size_t count = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    indices[count] = id_of(entries_[i]);
    starts[count] = i;
    count += i == 0 || id_of(entries_[i]) != id_of(entries_[i - 1]);
  }
  indices.resize(count);
  starts.resize(count);
  starts.push_back(entries_.size());
}

MergedRows merge_rows(std::span<const std::int32_t> ids, const Tensor& values,
                      std::optional<std::int32_t> left_out, bool mean) {
  const std::size_t width = values.shape().back();
  return sum_groups(
      RowGroups(ids, left_out), width, mean,
      [width, rows = values.data()](std::size_t i) { return rows + i * width; },
      [](const Simd& x, std::size_t) { return x; });
}

}  // namespace rowgrad::kernels
