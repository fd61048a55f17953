#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/parallel/gradient_exchange.hpp>
#include <rowgrad/core/parallel/sharded_table.hpp>

namespace rowgrad {
namespace {

constexpr double kSmall = 1 << 16;  // row gradients of up to this many bytes are gathered

std::span<std::byte> bytes_of(real* data, std::size_t count) {
  return std::as_writable_bytes(std::span(data, count));
}

// Returns the positions in `rows` of the rows whose indices lie in `range`.
IndexRange rows_within(const RowGradient& rows, IndexRange range) {
  const auto index_of = [&](std::size_t row) {
    const auto found = std::ranges::lower_bound(rows.indices(), static_cast<std::int64_t>(row));
    return static_cast<std::size_t>(found - rows.indices().begin());
  };
  return {index_of(range.begin), index_of(range.end)};
}

// A buffer of rows that are copied or received.
struct RowBuffer {
  std::vector<std::int32_t> indices;
  Tensor values;

  RowBuffer(std::size_t rows, std::size_t width) : indices(rows), values(empty({rows, width})) {}

  void receive(std::vector<ProcessGroup::Receive>& receives, std::size_t from, IndexRange rows) {
    if (rows.size() == 0) return;
    const std::size_t width = values.shape()[1];
    receives.push_back(
        {from, std::as_writable_bytes(std::span(indices).subspan(rows.begin, rows.size()))});
    receives.push_back({from, bytes_of(values.data() + rows.begin * width, rows.size() * width)});
  }
  void copy(const RowGradient& from, IndexRange rows, std::size_t begin) {
    std::copy_n(from.indices().data() + rows.begin, rows.size(), indices.data() + begin);
    std::copy_n(from.values().data() + rows.begin * from.width(), rows.size() * from.width(),
                values.data() + begin * from.width());
  }
  RowGradient rows(const Shape& table) && { return {table, std::move(indices), std::move(values)}; }
};

}  // namespace

GradientExchange::GradientExchange(ProcessGroup& ranks, std::size_t slices,
                                   std::vector<Shape> shapes, std::size_t bucket_bytes)
    : ranks_(ranks),
      slices_(slices),
      shapes_(std::move(shapes)),
      distinct_share_(shapes_.size(), 1),
      ways_(shapes_.size(), "none") {
  check_argument(slices >= ranks.size(), "GradientExchange: ", slices, " slices for ", ranks.size(),
                 " ranks, expected at least one per rank");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == ranks.rank()) first_own_ = terms_.size();
    for (const IndexRange subtree : subtrees_in(range_of(slices, rank, ranks.size()), slices))
      terms_.push_back({rank, subtree});
  }
  const IndexRange mine = range_of(slices, ranks.rank(), ranks.size());
  subtrees_ = subtrees_in({mine.begin, mine.end - 1}, slices);
  subtrees_.push_back({mine.end - 1, mine.end});

  const std::size_t limit = std::min(bucket_bytes, SIZE_MAX / ranks.size()) * ranks.size();
  std::size_t bytes = 0;  // size of the last bucket so far
  for (std::size_t p = shapes_.size(); p-- > 0;) {
    const std::size_t more = element_count(shapes_[p]) * sizeof(real);
    if (buckets_.empty() || more > limit - std::min(bytes, limit)) {
      buckets_.push_back({.channel = buckets_.size() + 1, .begin = p, .end = p + 1});
      bytes = 0;
    }
    buckets_.back().begin = p;
    bytes += more;
  }
}

Gradients GradientExchange::sum(std::vector<Gradients> partial) {
  check_argument(!partial.empty(),
                 "GradientExchange::sum: partial is empty, expected the gradients of each subtree");
  Gradients last = std::move(partial.back());
  partial.pop_back();
  start(std::move(partial));
  for (std::size_t p = last.size(); p-- > 0;) submit(p, std::move(last[p]));
  return finish();
}

void GradientExchange::start(std::vector<Gradients> earlier, std::vector<bool> sharded) {
  check_argument(earlier.size() + 1 == subtrees_.size(),
                 "GradientExchange::start: there are gradients of ", earlier.size() + 1,
                 " subtrees, expected ", subtrees_.size());
  for (const Gradients& gradients : earlier)
    check_argument(gradients.size() == shapes_.size(),
                   "GradientExchange::start: there are gradients of ", gradients.size(),
                   " parameters, expected ", shapes_.size());
  check_state(ranks_.size() == 1 || own_.empty(),
              "GradientExchange::start: the previous sum is not finished; call finish() first");
  for (Bucket& bucket : buckets_) bucket.missing = bucket.end - bucket.begin;
  submitted_.assign(shapes_.size(), false);
  sharded_ = std::move(sharded);
  sharded_.resize(shapes_.size());
  counts_.assign(terms_.size() * shapes_.size(), kNone);
  std::ranges::fill(ways_, "none");
  sums_ = Gradients(shapes_.size());
  own_ = std::vector<Gradients>(
      static_cast<std::size_t>(std::ranges::count(terms_, ranks_.rank(), &Term::rank)));
  own_.back().resize(shapes_.size());
  const auto halves = earlier.begin() + (static_cast<std::ptrdiff_t>(own_.size()) - 1);
  std::move(earlier.begin(), halves, own_.begin());
  left_halves_.assign(std::move_iterator(halves), std::move_iterator(earlier.end()));
}

void GradientExchange::submit(std::size_t parameter, Gradient gradient) {
  check_state(!own_.empty(), "GradientExchange::submit: no sum was started; call start() first");
  check_state(!submitted_.at(parameter), "GradientExchange::submit: the gradient of parameter ",
              parameter, " was already submitted");
  if (!gradient.is_none())
    check_argument(gradient.shape() == shapes_[parameter], "GradientExchange::submit: parameter ",
                   parameter, " has a gradient of shape ", bracketed(gradient.shape()),
                   ", expected ", bracketed(shapes_[parameter]));
  submitted_[parameter] = true;
  for (std::size_t i = left_halves_.size(); i-- > 0;) {
    left_halves_[i][parameter].add(std::move(gradient));
    gradient = std::move(left_halves_[i][parameter]);
  }
  own_.back()[parameter] = std::move(gradient);
  if (ranks_.size() == 1) return;
  for (Bucket& bucket : buckets_) {
    const bool follows = bucket.awaits == Bucket::kCounts || bucket.awaits == Bucket::kPieces;
    if (follows && ranks_.done(bucket.channel)) advance(bucket);
    if (bucket.begin > parameter || parameter >= bucket.end) continue;
    if (--bucket.missing == 0) exchange_counts(bucket);
  }
}

Gradients GradientExchange::finish() {
  check_state(!own_.empty(), "GradientExchange::finish: no sum was started; call start() first");
  for (std::size_t p = shapes_.size(); p-- > 0;)
    if (!submitted_[p]) submit(p, {});
  if (ranks_.size() == 1) sums_ = std::move(own_.front());
  // All buckets finish a step before the first bucket waits for its next step, so that transfers
  // overlap.
  for (const auto step : {Bucket::kCounts, Bucket::kPieces, Bucket::kSums})
    for (Bucket& bucket : buckets_)
      if (bucket.awaits == step) {
        ranks_.finish(bucket.channel);
        advance(bucket);
      }
  for (std::size_t p = 0; ranks_.size() > 1 && p < shapes_.size(); ++p) sum_rows(p);
  own_.clear();
  left_halves_.clear();
  return std::move(sums_);
}

std::size_t GradientExchange::term_of(IndexRange slices) const {
  return static_cast<std::size_t>(std::ranges::find(terms_, slices, &Term::slices) -
                                  terms_.begin());
}

void GradientExchange::start_transfers(std::size_t channel) {
  ranks_.start(channel, sends_, receives_);
  sends_.clear();
  receives_.clear();
}

// --- Dense gradients, bucket by bucket -----------------------------------------------------------

void GradientExchange::advance(Bucket& bucket) {
  const Bucket::Step done = std::exchange(bucket.awaits, Bucket::kNothing);
  if (done == Bucket::kCounts) exchange_pieces(bucket);
  if (done == Bucket::kPieces) exchange_sums(bucket);
  if (done == Bucket::kSums) bucket.arrived.clear();
}

void GradientExchange::exchange_counts(Bucket& bucket) {
  for (std::size_t s = 0; s < terms_.size(); ++s) {
    const std::span<std::int64_t> counts(&count(s, bucket.begin), bucket.end - bucket.begin);
    if (!is_mine(s)) {
      receives_.push_back({terms_[s].rank, std::as_writable_bytes(counts)});
      continue;
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Gradient& gradient = own(s, bucket.begin + i);
      if (gradient.is_dense()) counts[i] = kDense;
      if (gradient.is_rows()) counts[i] = static_cast<std::int64_t>(gradient.rows().size());
    }
    for (const std::size_t other : ranks_.others())
      sends_.push_back({other, std::as_bytes(counts)});
  }
  start_transfers(bucket.channel);
  bucket.awaits = Bucket::kCounts;
}

// Returns the pieces that `owner` sums. Together, the pieces are the owner's range of a bucket's
// dense gradients.
std::vector<GradientExchange::Piece> GradientExchange::pieces_of(const Bucket& bucket,
                                                                 std::size_t owner) const {
  const auto size = [&](std::size_t p) {
    return ways_[p] == "dense" ? element_count(shapes_[p]) : 0;
  };
  std::size_t total = 0;
  for (std::size_t p = bucket.begin; p < bucket.end; ++p) total += size(p);
  const IndexRange range = range_of(total, owner, ranks_.size());
  std::vector<Piece> pieces;
  std::size_t begin = 0;
  for (std::size_t p = bucket.begin; p < bucket.end; begin += size(p++)) {
    const std::size_t first = std::max(begin, range.begin);
    const std::size_t last = std::min(begin + size(p), range.end);
    if (first < last) pieces.push_back({p, first - begin, last - first});
  }
  return pieces;
}

// Sends pieces of dense gradients to their owners. If some slices have a dense gradient of a
// parameter and others have rows, all its gradients become dense.
void GradientExchange::exchange_pieces(Bucket& bucket) {
  for (std::size_t p = bucket.begin; p < bucket.end; ++p) {
    for (std::size_t s = 0; s < terms_.size(); ++s)
      if (count(s, p) == kDense) ways_[p] = "dense";
    for (std::size_t s = 0; ways_[p] == "dense" && s < terms_.size(); ++s) {
      if (count(s, p) < 0) continue;
      count(s, p) = kDense;
      if (is_mine(s)) own(s, p) = std::move(own(s, p)).take_dense();
    }
  }

  const std::vector<Piece> mine = pieces_of(bucket, ranks_.rank());
  std::size_t values = 0;
  for (const Piece& piece : mine) values += piece.count;
  bucket.arrived.resize(terms_.size());
  for (std::size_t s = 0; s < terms_.size(); ++s) {
    if (is_mine(s)) continue;
    bucket.arrived[s] = empty({values});
    real* to = bucket.arrived[s].data();
    for (const Piece& piece : mine) {
      if (count(s, piece.parameter) == kDense)
        receives_.push_back({terms_[s].rank, bytes_of(to, piece.count)});
      to += piece.count;
    }
  }
  for (const std::size_t owner : ranks_.others()) {
    const std::vector<Piece> pieces = pieces_of(bucket, owner);
    for (std::size_t s = 0; s < terms_.size(); ++s)
      for (const auto& [p, offset, size] : pieces)
        if (is_mine(s) && count(s, p) == kDense)
          sends_.push_back({owner, bytes_of(own(s, p).dense().data() + offset, size)});
  }
  start_transfers(bucket.channel);
  bucket.awaits = Bucket::kPieces;
}

// Adds up this rank's pieces, and sends the sums to all other ranks.
void GradientExchange::exchange_sums(Bucket& bucket) {
  // Sums are stored in the memory of a dense gradient of this rank, if there is one.
  const auto stored_in = [&](std::size_t p) -> Gradient& {
    for (Gradients& gradients : own_)
      if (gradients[p].is_dense()) return gradients[p];
    if (!sums_[p].is_dense()) sums_[p] = empty(shapes_[p]);
    return sums_[p];
  };
  const auto add_values = [](std::size_t count, real*& a, real* b) {
    if (a != nullptr && b != nullptr)
      kernels::map_into(count, a, std::plus<>(), a, b);
    else if (a == nullptr)
      a = b;
  };
  const std::vector<Piece> mine = pieces_of(bucket, ranks_.rank());
  std::size_t offset = 0;  // start of the piece in bucket.arrived
  for (const Piece& piece : mine) {
    const auto values_of = [&](IndexRange slices, real*& values) {
      const std::size_t s = term_of(slices);
      if (s == terms_.size()) return false;
      if (count(s, piece.parameter) == kDense)
        values = is_mine(s) ? own(s, piece.parameter).dense().data() + piece.offset
                            : bucket.arrived[s].data() + offset;
      return true;
    };
    const real* sum = tree_sum<real*>({0, slices_}, values_of,
                                      [&](real*& a, real* b) { add_values(piece.count, a, b); });
    real* to = stored_in(piece.parameter).dense().data() + piece.offset;
    if (sum != to) std::copy_n(sum, piece.count, to);
    offset += piece.count;
  }
  for (std::size_t p = bucket.begin; p < bucket.end; ++p)
    if (ways_[p] == "dense" && !sums_[p].is_dense()) sums_[p] = std::move(stored_in(p));

  const auto bytes = [&](const Piece& piece) {
    return bytes_of(sums_[piece.parameter].dense().data() + piece.offset, piece.count);
  };
  for (const std::size_t other : ranks_.others()) {
    for (const Piece& piece : mine) sends_.push_back({other, bytes(piece)});
    for (const Piece& piece : pieces_of(bucket, other)) receives_.push_back({other, bytes(piece)});
  }
  start_transfers(bucket.channel);
  bucket.awaits = Bucket::kSums;
}

// --- Row gradients -------------------------------------------------------------------------------

void GradientExchange::send_rows(std::size_t to, const RowGradient& rows, IndexRange sent) {
  if (sent.size() == 0) return;
  const std::size_t width = rows.width();
  sends_.push_back({to, std::as_bytes(std::span(rows.indices()).subspan(sent.begin, sent.size()))});
  sends_.push_back({to, std::as_bytes(std::span(rows.values().data() + sent.begin * width,
                                                sent.size() * width))});
}

void GradientExchange::sum_rows(std::size_t p) {
  std::vector<std::int64_t> counts(terms_.size());
  double rows = 0;
  for (std::size_t s = 0; s < terms_.size(); ++s) {
    counts[s] = count(s, p);
    rows += static_cast<double>(std::max<std::int64_t>(counts[s], 0));
  }
  if (std::ranges::max(counts) < 0) return;
  // Gathering sends all N rows to each rank. With owners, each rank receives N / ranks rows, and
  // then the distinct rows. Small gradients are gathered, because gathering takes fewer messages.
  // Sharded tables always use owners.
  const double bytes = rows * static_cast<double>(shapes_[p][1] * sizeof(real));
  const bool owners =
      sharded_[p] ||
      (bytes > kSmall && distinct_share_[p] + 1 / static_cast<double>(ranks_.size()) < 1);
  ways_[p] = owners ? "owners" : "gathered";
  sums_[p] =
      owners ? sum_by_owners(p)
             : sum_rows_in(p, std::vector<IndexRange>(ranks_.size(), {0, shapes_[p][0]}), counts);
  if (rows > 0 && !sharded_[p])
    distinct_share_[p] = static_cast<double>(sums_[p].rows().size()) / rows;
}

// Sends each rank the rows of this rank's terms that lie in wanted[rank] of the table. Receives
// arriving[term] rows of other ranks' terms, and returns the sum of the rows that this rank wants.
Gradient GradientExchange::sum_rows_in(std::size_t p, const std::vector<IndexRange>& wanted,
                                       const std::vector<std::int64_t>& arriving) {
  std::vector<RowBuffer> buffers;  // [term]
  buffers.reserve(terms_.size());
  for (std::size_t s = 0; s < terms_.size(); ++s) {
    const auto rows =
        static_cast<std::size_t>(is_mine(s) ? 0 : std::max<std::int64_t>(arriving[s], 0));
    buffers.emplace_back(rows, shapes_[p][1]);
    buffers.back().receive(receives_, terms_[s].rank, {0, rows});
    if (is_mine(s) && count(s, p) > 0)
      for (const std::size_t other : ranks_.others())
        send_rows(other, own(s, p).rows(), rows_within(own(s, p).rows(), wanted[other]));
  }
  start_transfers(0);
  ranks_.finish(0);

  const IndexRange mine = wanted[ranks_.rank()];
  const auto rows_of = [&](IndexRange slices, Gradient& gradient) {
    const std::size_t s = term_of(slices);
    if (s == terms_.size()) return false;
    if (count(s, p) == kNone) return true;
    if (!is_mine(s)) {
      gradient = std::move(buffers[s]).rows(shapes_[p]);
    } else if (mine.size() == shapes_[p][0]) {
      gradient = std::move(own(s, p));
    } else {
      const IndexRange rows = rows_within(own(s, p).rows(), mine);
      RowBuffer copy(rows.size(), shapes_[p][1]);
      copy.copy(own(s, p).rows(), rows, 0);
      gradient = std::move(copy).rows(shapes_[p]);
    }
    return true;
  };
  return tree_sum<Gradient>({0, slices_}, rows_of,
                            [](Gradient& a, Gradient&& b) { a.add(std::move(b)); });
}

Gradient GradientExchange::sum_by_owners(std::size_t p) {
  const std::size_t ranks = ranks_.size();
  std::vector<IndexRange> owned;                                          // [rank]
  std::vector<std::vector<std::uint64_t>> sizes(ranks), arriving(ranks);  // [rank][its term]
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    owned.push_back(rows_of_rank(shapes_[p][0], owner, ranks));
    for (std::size_t s = 0; s < terms_.size(); ++s)
      if (is_mine(s))
        sizes[owner].push_back(count(s, p) > 0 ? rows_within(own(s, p).rows(), owned[owner]).size()
                                               : 0);
  }
  for (const Term& term : terms_)
    arriving[term.rank].push_back(0);  // the entries of this rank's terms are not read
  ranks_.all_to_all(sizes, arriving);
  std::vector<std::int64_t> of_terms;
  for (const auto& its : arriving) of_terms.insert(of_terms.end(), its.begin(), its.end());
  Gradient sum = sum_rows_in(p, owned, of_terms);
  if (sharded_[p]) return sum;

  // Gathers the sums of all ranks, in the order of owners.
  const RowGradient& mine = sum.rows();
  const auto count_of_mine = static_cast<std::int64_t>(mine.size());
  const std::vector<std::int64_t> counts = ranks_.all_gather(std::span(&count_of_mine, 1));
  const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  RowBuffer sums(static_cast<std::size_t>(total), shapes_[p][1]);
  std::size_t begin = 0;
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    const IndexRange rows{begin, begin + static_cast<std::size_t>(counts[owner])};
    if (owner == ranks_.rank()) {
      sums.copy(mine, {0, mine.size()}, begin);
    } else {
      sums.receive(receives_, owner, rows);
      send_rows(owner, mine, {0, mine.size()});
    }
    begin = rows.end;
  }
  start_transfers(0);
  ranks_.finish(0);
  return std::move(sums).rows(shapes_[p]);
}

}  // namespace rowgrad
