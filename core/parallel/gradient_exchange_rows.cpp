// Row gradients: see GradientExchange.

#include <algorithm>
#include <numeric>

#include <rowgrad/core/parallel/gradient_exchange.hpp>

namespace rowgrad {
namespace {

constexpr double kSmall = 1 << 16;  // bytes of rows

// The rows of a gradient with numbers in [begin, end).
struct Slice {
  std::size_t first;
  std::size_t count;
};
Slice slice(const RowGradient& rows, std::size_t begin, std::size_t end) {
  const auto place = [&](std::size_t row) {
    return static_cast<std::size_t>(
        std::lower_bound(
            rows.indices().begin(), rows.indices().end(), row,
            [](std::int32_t a, std::size_t b) { return static_cast<std::size_t>(a) < b; }) -
        rows.indices().begin());
  };
  return {place(begin), place(end) - place(begin)};
}

// Rows that come from several places.
struct Arriving {
  std::vector<std::int32_t> indices;
  Tensor values;

  Arriving(std::size_t rows, std::size_t width) : indices(rows), values(empty({rows, width})) {}

  void add_to(std::vector<ProcessGroup::Receive>& receives, std::size_t from) {
    add_to(receives, from, 0, indices.size());
  }
  void add_to(std::vector<ProcessGroup::Receive>& receives, std::size_t from, std::size_t begin,
              std::size_t count) {
    if (count == 0) return;
    const std::size_t width = values.shape()[1];
    receives.push_back({from, std::as_writable_bytes(std::span(indices).subspan(begin, count))});
    receives.push_back(
        {from, std::as_writable_bytes(std::span(values.data() + begin * width, count * width))});
  }
  void copy(const RowGradient& rows, Slice of, std::size_t begin = 0) {
    const std::size_t width = rows.width();
    std::copy_n(rows.indices().data() + of.first, of.count, indices.data() + begin);
    std::copy_n(rows.values().data() + of.first * width, of.count * width,
                values.data() + begin * width);
  }
  RowGradient rows(const Shape& table) && { return {table, std::move(indices), std::move(values)}; }
};

void add_slice(std::vector<ProcessGroup::Send>& sends, std::size_t to, const RowGradient& rows,
               Slice of) {
  if (of.count == 0) return;
  sends.push_back({to, std::as_bytes(std::span(rows.indices()).subspan(of.first, of.count))});
  sends.push_back({to, std::as_bytes(std::span(rows.values().data() + of.first * rows.width(),
                                               of.count * rows.width()))});
}

}  // namespace

void GradientExchange::sum_rows() {
  for (std::size_t p = 0; p < shapes_.size(); ++p) {
    std::int64_t rows = kNone;  // of all ranks
    for (std::size_t s = 0; s < sources_.size(); ++s)
      if (count(s, p) >= 0) rows = std::max<std::int64_t>(rows, 0) + count(s, p);
    if (rows == kNone) continue;
    // Rows that are sent to one rank: N for all others to have them, or N / ranks for the owners
    // and then the distinct ones. Small ones are gathered, which takes fewer messages.
    const double all = static_cast<double>(rows);
    const double bytes = all * static_cast<double>(shapes_[p][1] * sizeof(real));
    const bool owners =
        bytes > kSmall && distinct_share_[p] + 1 / static_cast<double>(ranks_.size()) < 1;
    ways_[p] = owners ? "owners" : "gathered";
    sums_[p] = owners ? by_owners(p) : gathered(p);
    if (rows > 0) distinct_share_[p] = static_cast<double>(sums_[p].rows().size()) / all;
  }
}

// The sum of all sources' gradients.
Gradient GradientExchange::merged(std::vector<Gradient> of_sources) const {
  return sum_of_tree<Gradient>(
      {0, shards_},
      [&](IndexRange node, Gradient& gradient) {
        const std::size_t s = source_of(node);
        if (s < sources_.size()) gradient = std::move(of_sources[s]);
        return s < sources_.size();
      },
      [](Gradient& a, Gradient&& b) { a.add(std::move(b)); });
}

Gradient GradientExchange::gathered(std::size_t p) {
  std::vector<ProcessGroup::Send> sends;
  std::vector<ProcessGroup::Receive> receives;
  std::vector<Arriving> arriving;
  arriving.reserve(sources_.size());
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    const bool here = is_mine(s);
    arriving.emplace_back(here || count(s, p) < 0 ? 0 : static_cast<std::size_t>(count(s, p)),
                          shapes_[p][1]);
    arriving.back().add_to(receives, sources_[s].rank);
    for (std::size_t other = 0; here && count(s, p) > 0 && other < ranks_.size(); ++other) {
      const RowGradient& rows = own(s, p).rows();
      if (other != ranks_.rank()) add_slice(sends, other, rows, {0, rows.size()});
    }
  }
  ranks_.exchange(sends, receives);
  std::vector<Gradient> all(sources_.size());
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    if (is_mine(s))
      all[s] = std::move(own(s, p));
    else if (count(s, p) >= 0)
      all[s] = std::move(arriving[s]).rows(shapes_[p]);
  }
  return merged(std::move(all));
}

Gradient GradientExchange::by_owners(std::size_t p) {
  const std::size_t ranks = ranks_.size();
  const std::size_t me = ranks_.rank();
  const auto slice_for = [&](std::size_t owner, std::size_t source) {
    const IndexRange range = range_of(shapes_[p][0], owner, ranks);
    return slice(own(source, p).rows(), range.begin, range.end);
  };
  // How many rows of each source are for which owner.
  std::vector<std::int64_t> mine(sources_.size() * ranks, 0);
  for (std::size_t s = 0; s < sources_.size(); ++s)
    for (std::size_t owner = 0; is_mine(s) && count(s, p) > 0 && owner < ranks; ++owner)
      mine[s * ranks + owner] = static_cast<std::int64_t>(slice_for(owner, s).count);
  const std::vector<std::int64_t> sizes = ranks_.gather(std::span<const std::int64_t>(mine));
  const auto size = [&](std::size_t s, std::size_t owner) {
    return static_cast<std::size_t>(sizes[sources_[s].rank * mine.size() + s * ranks + owner]);
  };

  std::vector<ProcessGroup::Send> sends;
  std::vector<ProcessGroup::Receive> receives;
  std::vector<Arriving> arriving;
  arriving.reserve(sources_.size());
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    arriving.emplace_back(size(s, me), shapes_[p][1]);
    if (!is_mine(s)) {
      arriving.back().add_to(receives, sources_[s].rank);
      continue;
    }
    for (std::size_t owner = 0; owner < ranks; ++owner) {
      if (size(s, owner) == 0) continue;
      const RowGradient& rows = own(s, p).rows();
      if (owner != me)
        add_slice(sends, owner, rows, slice_for(owner, s));
      else
        arriving.back().copy(rows, slice_for(owner, s));
    }
  }
  ranks_.exchange(sends, receives);
  std::vector<Gradient> all(sources_.size());
  for (std::size_t s = 0; s < sources_.size(); ++s)
    all[s] = std::move(arriving[s]).rows(shapes_[p]);
  const Gradient of_mine = merged(std::move(all));

  // Everybody's sums, which lie side by side in the order of the owners.
  const auto count_of_mine = static_cast<std::int64_t>(of_mine.rows().size());
  const std::vector<std::int64_t> counts = ranks_.gather(std::span(&count_of_mine, 1));
  const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  Arriving sum(static_cast<std::size_t>(total), shapes_[p][1]);
  sends.clear();
  receives.clear();
  std::size_t begin = 0;
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    const auto rows = static_cast<std::size_t>(counts[owner]);
    if (owner == me)
      sum.copy(of_mine.rows(), {0, rows}, begin);
    else
      sum.add_to(receives, owner, begin, rows);
    if (owner != me) add_slice(sends, owner, of_mine.rows(), {0, of_mine.rows().size()});
    begin += rows;
  }
  ranks_.exchange(sends, receives);
  return std::move(sum).rows(shapes_[p]);
}

}  // namespace rowgrad
