#include <algorithm>
#include <functional>
#include <numeric>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/parallel/gradient_exchange.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

constexpr std::int64_t kNone = -1;
constexpr std::int64_t kDense = -2;
constexpr double kSmall = 1 << 16;  // bytes of rows

std::span<std::byte> bytes_of(real* data, std::size_t count) {
  return std::as_writable_bytes(std::span(data, count));
}

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

  void add_to(std::vector<Ranks::Receive>& receives, std::size_t from) {
    add_to(receives, from, 0, indices.size());
  }
  void add_to(std::vector<Ranks::Receive>& receives, std::size_t from, std::size_t begin,
              std::size_t count) {
    if (count == 0) return;
    const std::size_t width = values.shape()[1];
    receives.push_back({from, std::as_writable_bytes(std::span(indices).subspan(begin, count))});
    receives.push_back({from, bytes_of(values.data() + begin * width, count * width)});
  }
  void copy(const RowGradient& rows, Slice of, std::size_t begin = 0) {
    const std::size_t width = rows.width();
    std::copy_n(rows.indices().data() + of.first, of.count, indices.data() + begin);
    std::copy_n(rows.values().data() + of.first * width, of.count * width,
                values.data() + begin * width);
  }
  RowGradient rows(const Shape& table) && { return {table, std::move(indices), std::move(values)}; }
};

void add_slice(std::vector<Ranks::Send>& sends, std::size_t to, const RowGradient& rows, Slice of) {
  if (of.count == 0) return;
  sends.push_back({to, std::as_bytes(std::span(rows.indices()).subspan(of.first, of.count))});
  sends.push_back({to, std::as_bytes(std::span(rows.values().data() + of.first * rows.width(),
                                               of.count * rows.width()))});
}

// A part of the dense gradients as one vector: `count` numbers of a parameter from `offset` on.
struct Piece {
  std::size_t parameter;
  std::size_t offset;
  std::size_t count;
};

}  // namespace

void add(Gradients& a, Gradients&& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i].add(std::move(b[i]));
}

GradientExchange::GradientExchange(Ranks& ranks, std::size_t shards, std::vector<Shape> shapes)
    : ranks_(ranks),
      shards_(shards),
      shapes_(std::move(shapes)),
      ways_(shapes_.size(), "none"),
      distinct_share_(shapes_.size(), 1) {
  check_argument(shards >= ranks.size(), "GradientExchange: ", shards, " shards for ", ranks.size(),
                 " ranks, expected at least one for each");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    nodes_of_.push_back(nodes_in(part_of(shards, rank, ranks.size()), shards));
    for (std::size_t node = 0; node < nodes_of_.back().size(); ++node)
      sources_.push_back({rank, node, nodes_of_.back()[node]});
  }
}

Gradients GradientExchange::sum(Partial partial) {
  check_argument(partial.size() == nodes().size(), "GradientExchange::sum: there are gradients of ",
                 partial.size(), " nodes, expected ", nodes().size());
  if (ranks_.size() == 1) return std::move(partial.front());
  exchange_counts(partial);
  settle_kinds(partial);
  std::ranges::fill(ways_, "none");
  Gradients sums(shapes_.size());
  sum_dense(partial, sums);
  sum_rows(partial, sums);
  return sums;
}

std::size_t GradientExchange::source_of(ShardRange node) const {
  const auto found = std::ranges::find(sources_, node, &Source::range);
  return static_cast<std::size_t>(found - sources_.begin());
}

void GradientExchange::exchange_counts(const Partial& partial) {
  counts_.assign(sources_.size() * shapes_.size(), kNone);
  std::vector<Ranks::Send> sends;
  std::vector<Ranks::Receive> receives;
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    const std::span<std::int64_t> counts(&count(s, 0), shapes_.size());
    if (!is_mine(s)) {
      receives.push_back({sources_[s].rank, std::as_writable_bytes(counts)});
      continue;
    }
    for (std::size_t p = 0; p < shapes_.size(); ++p) {
      const Gradient& gradient = partial[sources_[s].node][p];
      if (gradient.is_dense()) counts[p] = kDense;
      if (gradient.is_rows()) counts[p] = static_cast<std::int64_t>(gradient.rows().size());
    }
    for (std::size_t other = 0; other < ranks_.size(); ++other)
      if (other != ranks_.rank()) sends.push_back({other, std::as_bytes(counts)});
  }
  ranks_.exchange(sends, receives);
}

// Where some shards have a dense gradient and others rows, all become dense.
void GradientExchange::settle_kinds(Partial& partial) {
  for (std::size_t p = 0; p < shapes_.size(); ++p) {
    bool dense = false;
    for (std::size_t s = 0; s < sources_.size(); ++s) dense |= count(s, p) == kDense;
    for (std::size_t s = 0; dense && s < sources_.size(); ++s) {
      if (count(s, p) < 0) continue;
      count(s, p) = kDense;
      if (is_mine(s)) own(partial, s, p) = std::move(own(partial, s, p)).take_dense();
    }
  }
}

void GradientExchange::sum_dense(Partial& partial, Gradients& sums) {
  std::vector<std::size_t> sizes(shapes_.size(), 0);
  for (std::size_t s = 0; s < sources_.size(); ++s)
    for (std::size_t p = 0; p < shapes_.size(); ++p)
      if (count(s, p) == kDense) {
        ways_[p] = "dense";
        sizes[p] = element_count(shapes_[p]);
      }
  const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  const auto pieces_of = [&](std::size_t owner) {
    const ShardRange range = part_of(total, owner, ranks_.size());
    std::vector<Piece> pieces;
    std::size_t begin = 0;
    for (std::size_t p = 0; p < shapes_.size(); begin += sizes[p++]) {
      const std::size_t first = std::max(begin, range.begin);
      const std::size_t last = std::min(begin + sizes[p], range.end);
      if (first < last) pieces.push_back({p, first - begin, last - first});
    }
    return pieces;
  };
  const std::vector<Piece> pieces = pieces_of(ranks_.rank());

  // The numbers of my pieces from all other sources.
  std::vector<Ranks::Send> sends;
  std::vector<Ranks::Receive> receives;
  std::vector<Tensor> arrived(sources_.size());
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    if (!is_mine(s)) {
      arrived[s] = empty({part_of(total, ranks_.rank(), ranks_.size()).size()});
      real* to = arrived[s].data();
      for (const Piece& piece : pieces) {
        if (count(s, piece.parameter) == kDense)
          receives.push_back({sources_[s].rank, bytes_of(to, piece.count)});
        to += piece.count;
      }
      continue;
    }
    for (std::size_t owner = 0; owner < ranks_.size(); ++owner)
      for (const Piece& piece : owner == ranks_.rank() ? std::vector<Piece>() : pieces_of(owner))
        if (count(s, piece.parameter) == kDense)
          sends.push_back(
              {owner, bytes_of(own(partial, s, piece.parameter).dense().data() + piece.offset,
                               piece.count)});
  }
  ranks_.exchange(sends, receives);

  // Sums are stored where a gradient of this rank is, if it has one.
  std::vector<real*> stored(shapes_.size(), nullptr);
  std::vector<Gradient*> first(shapes_.size(), nullptr);
  for (std::size_t p = 0; p < shapes_.size(); ++p) {
    if (ways_[p] != "dense") continue;
    for (Gradients& gradients : partial)
      if (first[p] == nullptr && gradients[p].is_dense()) first[p] = &gradients[p];
    if (first[p] == nullptr) {
      sums[p] = empty(shapes_[p]);
      first[p] = &sums[p];
    }
    stored[p] = first[p]->dense().data();
  }
  std::size_t place = 0;  // of the piece among all of mine
  for (const Piece& piece : pieces) {
    const auto numbers_of = [&](ShardRange node, real*& numbers) {
      const std::size_t s = source_of(node);
      if (s == sources_.size()) return false;
      if (count(s, piece.parameter) == kDense)
        numbers = is_mine(s) ? own(partial, s, piece.parameter).dense().data() + piece.offset
                             : arrived[s].data() + place;
      return true;
    };
    const auto add_numbers = [&](real*& a, real* b) {
      if (a != nullptr && b != nullptr)
        kernels::map_into(piece.count, a, std::plus<>(), a, b);
      else if (a == nullptr)
        a = b;
    };
    const real* sum = sum_of_node<real*>({0, shards_}, numbers_of, add_numbers);
    real* to = stored[piece.parameter] + piece.offset;
    if (sum != to) std::copy_n(sum, piece.count, to);
    place += piece.count;
  }

  sends.clear();
  receives.clear();
  for (std::size_t other = 0; other < ranks_.size(); ++other) {
    if (other == ranks_.rank()) continue;
    for (const Piece& piece : pieces)
      sends.push_back({other, bytes_of(stored[piece.parameter] + piece.offset, piece.count)});
    for (const Piece& piece : pieces_of(other))
      receives.push_back({other, bytes_of(stored[piece.parameter] + piece.offset, piece.count)});
  }
  ranks_.exchange(sends, receives);
  for (std::size_t p = 0; p < shapes_.size(); ++p)
    if (first[p] != nullptr && first[p] != &sums[p]) sums[p] = std::move(*first[p]);
}

void GradientExchange::sum_rows(Partial& partial, Gradients& sums) {
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
    sums[p] = owners ? by_owners(partial, p) : gathered(partial, p);
    if (rows > 0) distinct_share_[p] = static_cast<double>(sums[p].rows().size()) / all;
  }
}

// The sum of all sources' gradients.
Gradient GradientExchange::merged(std::vector<Gradient> of_sources) const {
  return sum_of_node<Gradient>(
      {0, shards_},
      [&](ShardRange node, Gradient& gradient) {
        const std::size_t s = source_of(node);
        if (s < sources_.size()) gradient = std::move(of_sources[s]);
        return s < sources_.size();
      },
      [](Gradient& a, Gradient&& b) { a.add(std::move(b)); });
}

Gradient GradientExchange::gathered(Partial& partial, std::size_t p) {
  std::vector<Ranks::Send> sends;
  std::vector<Ranks::Receive> receives;
  std::vector<Arriving> arriving;
  arriving.reserve(sources_.size());
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    const bool here = is_mine(s);
    arriving.emplace_back(here || count(s, p) < 0 ? 0 : static_cast<std::size_t>(count(s, p)),
                          shapes_[p][1]);
    arriving.back().add_to(receives, sources_[s].rank);
    for (std::size_t other = 0; here && count(s, p) > 0 && other < ranks_.size(); ++other) {
      const RowGradient& rows = own(partial, s, p).rows();
      if (other != ranks_.rank()) add_slice(sends, other, rows, {0, rows.size()});
    }
  }
  ranks_.exchange(sends, receives);
  std::vector<Gradient> all(sources_.size());
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    if (is_mine(s))
      all[s] = std::move(own(partial, s, p));
    else if (count(s, p) >= 0)
      all[s] = std::move(arriving[s]).rows(shapes_[p]);
  }
  return merged(std::move(all));
}

Gradient GradientExchange::by_owners(Partial& partial, std::size_t p) {
  const std::size_t ranks = ranks_.size();
  const std::size_t me = ranks_.rank();
  const auto slice_for = [&](std::size_t owner, std::size_t source) {
    const ShardRange range = part_of(shapes_[p][0], owner, ranks);
    return slice(own(partial, source, p).rows(), range.begin, range.end);
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

  std::vector<Ranks::Send> sends;
  std::vector<Ranks::Receive> receives;
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
      const RowGradient& rows = own(partial, s, p).rows();
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
