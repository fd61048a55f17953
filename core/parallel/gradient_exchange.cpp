#include <algorithm>
#include <cstdint>
#include <functional>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/parallel/gradient_exchange.hpp>

namespace rowgrad {
namespace {

std::span<std::byte> bytes_of(real* data, std::size_t count) {
  return std::as_writable_bytes(std::span(data, count));
}

}  // namespace

void add(Gradients& a, Gradients&& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i].add(std::move(b[i]));
}

GradientExchange::GradientExchange(ProcessGroup& ranks, std::size_t shards,
                                   std::vector<Shape> shapes, std::size_t bucket_bytes)
    : ranks_(ranks),
      shards_(shards),
      shapes_(std::move(shapes)),
      distinct_share_(shapes_.size(), 1),
      ways_(shapes_.size(), "none") {
  check_argument(shards >= ranks.size(), "GradientExchange: ", shards, " shards for ", ranks.size(),
                 " ranks, expected at least one for each");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    nodes_of_.push_back(subtrees_in(range_of(shards, rank, ranks.size()), shards));
    for (std::size_t node = 0; node < nodes_of_.back().size(); ++node)
      sources_.push_back({rank, node, nodes_of_.back()[node]});
  }
  const IndexRange mine = range_of(shards, ranks.rank(), ranks.size());
  subtrees_ = subtrees_in({mine.begin, mine.end - 1}, shards);
  subtrees_.push_back({mine.end - 1, mine.end});

  const std::size_t limit = std::min(bucket_bytes, SIZE_MAX / ranks.size()) * ranks.size();
  std::size_t bytes = 0;  // of the last bucket
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
  check_argument(!partial.empty(), "GradientExchange::sum: there are no gradients");
  Gradients last = std::move(partial.back());
  partial.pop_back();
  start(std::move(partial));
  for (std::size_t p = last.size(); p-- > 0;) give(p, std::move(last[p]));
  return finish();
}

void GradientExchange::start(std::vector<Gradients> earlier) {
  check_argument(earlier.size() + 1 == subtrees_.size(),
                 "GradientExchange: there are gradients of ", earlier.size() + 1,
                 " subtrees, expected ", subtrees_.size());
  for (const Gradients& gradients : earlier)
    check_argument(gradients.size() == shapes_.size(), "GradientExchange: there are gradients of ",
                   gradients.size(), " parameters, expected ", shapes_.size());
  check_state(ranks_.size() == 1 || nodes_.empty(),
              "GradientExchange::start: the last sum was not finished");
  for (Bucket& bucket : buckets_) bucket.awaits = Bucket::kGradients;
  given_.assign(shapes_.size(), false);
  counts_.assign(sources_.size() * shapes_.size(), kNone);
  std::ranges::fill(ways_, "none");
  sums_ = Gradients(shapes_.size());
  nodes_ = std::vector<Gradients>(nodes_of_[ranks_.rank()].size());
  nodes_.back().resize(shapes_.size());
  const auto halves = earlier.begin() + (static_cast<std::ptrdiff_t>(nodes_.size()) - 1);
  std::move(earlier.begin(), halves, nodes_.begin());
  left_halves_.assign(std::move_iterator(halves), std::move_iterator(earlier.end()));
}

void GradientExchange::give(std::size_t parameter, Gradient gradient) {
  check_state(!nodes_.empty(), "GradientExchange::give: no sum has been started");
  check_state(!given_.at(parameter), "GradientExchange::give: parameter ", parameter,
              " has been given");
  if (!gradient.is_none())
    check_argument(gradient.shape() == shapes_[parameter], "GradientExchange::give: parameter ",
                   parameter, " has a gradient of shape ", bracketed(gradient.shape()),
                   ", expected ", bracketed(shapes_[parameter]));
  given_[parameter] = true;
  for (std::size_t i = left_halves_.size(); i-- > 0;) {
    left_halves_[i][parameter].add(std::move(gradient));
    gradient = std::move(left_halves_[i][parameter]);
  }
  nodes_.back()[parameter] = std::move(gradient);
  if (ranks_.size() == 1) return;
  for (Bucket& bucket : buckets_) {
    const bool follows = bucket.awaits == Bucket::kCounts || bucket.awaits == Bucket::kParts;
    if (follows && ranks_.done(bucket.channel)) advance(bucket);
    if (bucket.begin > parameter || parameter >= bucket.end) continue;
    const auto begin = given_.begin() + static_cast<std::ptrdiff_t>(bucket.begin);
    const auto end = given_.begin() + static_cast<std::ptrdiff_t>(bucket.end);
    if (std::find(begin, end, false) == end) exchange_counts(bucket);
  }
}

Gradients GradientExchange::finish() {
  check_state(!nodes_.empty(), "GradientExchange::finish: no sum has been started");
  for (std::size_t p = shapes_.size(); p-- > 0;)
    if (!given_[p]) give(p, {});
  if (ranks_.size() == 1) sums_ = std::move(nodes_.front());
  // All buckets take each step before the first waits for its next: transfers do not pause.
  for (const auto step : {Bucket::kCounts, Bucket::kParts, Bucket::kSums})
    for (Bucket& bucket : buckets_)
      if (bucket.awaits == step) {
        ranks_.finish(bucket.channel);
        advance(bucket);
      }
  if (ranks_.size() > 1) sum_rows();
  nodes_.clear();
  left_halves_.clear();
  return std::move(sums_);
}

std::size_t GradientExchange::source_of(IndexRange node) const {
  const auto found = std::ranges::find(sources_, node, &Source::range);
  return static_cast<std::size_t>(found - sources_.begin());
}

void GradientExchange::advance(Bucket& bucket) {
  if (bucket.awaits == Bucket::kCounts) {
    settle_kinds(bucket);
    exchange_parts(bucket);
  } else if (bucket.awaits == Bucket::kParts) {
    exchange_sums(bucket);
  } else {
    bucket.arrived.clear();
    bucket.awaits = Bucket::kNothing;
  }
}

void GradientExchange::start(Bucket& bucket, Bucket::Step step) {
  ranks_.start(bucket.channel, sends_, receives_);
  sends_.clear();
  receives_.clear();
  bucket.awaits = step;
}

void GradientExchange::exchange_counts(Bucket& bucket) {
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    const std::span<std::int64_t> counts(&count(s, bucket.begin), bucket.end - bucket.begin);
    if (!is_mine(s)) {
      receives_.push_back({sources_[s].rank, std::as_writable_bytes(counts)});
      continue;
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Gradient& gradient = own(s, bucket.begin + i);
      if (gradient.is_dense()) counts[i] = kDense;
      if (gradient.is_rows()) counts[i] = static_cast<std::int64_t>(gradient.rows().size());
    }
    for (std::size_t other = 0; other < ranks_.size(); ++other)
      if (other != ranks_.rank()) sends_.push_back({other, std::as_bytes(counts)});
  }
  start(bucket, Bucket::kCounts);
}

// Where some shards have a dense gradient and others rows, all become dense.
void GradientExchange::settle_kinds(const Bucket& bucket) {
  for (std::size_t p = bucket.begin; p < bucket.end; ++p) {
    for (std::size_t s = 0; s < sources_.size(); ++s)
      if (count(s, p) == kDense) ways_[p] = "dense";
    for (std::size_t s = 0; ways_[p] == "dense" && s < sources_.size(); ++s) {
      if (count(s, p) < 0) continue;
      count(s, p) = kDense;
      if (is_mine(s)) own(s, p) = std::move(own(s, p)).take_dense();
    }
  }
}

// What a rank owns of the dense gradients of a bucket, as one vector.
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

// Owners get their pieces from all other sources.
void GradientExchange::exchange_parts(Bucket& bucket) {
  const std::vector<Piece> mine = pieces_of(bucket, ranks_.rank());
  std::size_t numbers = 0;
  for (const Piece& piece : mine) numbers += piece.count;
  bucket.arrived.resize(sources_.size());
  for (std::size_t s = 0; s < sources_.size(); ++s) {
    if (is_mine(s)) continue;
    bucket.arrived[s] = empty({numbers});
    real* to = bucket.arrived[s].data();
    for (const Piece& piece : mine) {
      if (count(s, piece.parameter) == kDense)
        receives_.push_back({sources_[s].rank, bytes_of(to, piece.count)});
      to += piece.count;
    }
  }
  for (std::size_t owner = 0; owner < ranks_.size(); ++owner) {
    if (owner == ranks_.rank()) continue;
    const std::vector<Piece> pieces = pieces_of(bucket, owner);
    for (std::size_t s = 0; s < sources_.size(); ++s)
      for (const Piece& piece : pieces)
        if (is_mine(s) && count(s, piece.parameter) == kDense)
          sends_.push_back({owner, bytes_of(own(s, piece.parameter).dense().data() + piece.offset,
                                            piece.count)});
  }
  start(bucket, Bucket::kParts);
}

// Owners add up their pieces, and send the sums to all others.
void GradientExchange::exchange_sums(Bucket& bucket) {
  // Sums are stored where a gradient of this rank is, if it has one.
  const auto stored_in = [&](std::size_t p) -> Gradient& {
    for (Gradients& gradients : nodes_)
      if (gradients[p].is_dense()) return gradients[p];
    if (!sums_[p].is_dense()) sums_[p] = empty(shapes_[p]);
    return sums_[p];
  };
  const std::vector<Piece> mine = pieces_of(bucket, ranks_.rank());
  std::size_t place = 0;  // of the piece among all of mine
  for (const Piece& piece : mine) {
    const auto numbers_of = [&](IndexRange node, real*& numbers) {
      const std::size_t s = source_of(node);
      if (s == sources_.size()) return false;
      if (count(s, piece.parameter) == kDense)
        numbers = is_mine(s) ? own(s, piece.parameter).dense().data() + piece.offset
                             : bucket.arrived[s].data() + place;
      return true;
    };
    const auto add_numbers = [&](real*& a, real* b) {
      if (a != nullptr && b != nullptr)
        kernels::map_into(piece.count, a, std::plus<>(), a, b);
      else if (a == nullptr)
        a = b;
    };
    const real* sum = sum_of_tree<real*>({0, shards_}, numbers_of, add_numbers);
    real* to = stored_in(piece.parameter).dense().data() + piece.offset;
    if (sum != to) std::copy_n(sum, piece.count, to);
    place += piece.count;
  }
  for (std::size_t p = bucket.begin; p < bucket.end; ++p)
    if (ways_[p] == "dense" && !sums_[p].is_dense()) sums_[p] = std::move(stored_in(p));

  const auto numbers = [&](const Piece& piece) {
    return bytes_of(sums_[piece.parameter].dense().data() + piece.offset, piece.count);
  };
  for (std::size_t other = 0; other < ranks_.size(); ++other) {
    if (other == ranks_.rank()) continue;
    for (const Piece& piece : mine) sends_.push_back({other, numbers(piece)});
    for (const Piece& piece : pieces_of(bucket, other))
      receives_.push_back({other, numbers(piece)});
  }
  start(bucket, Bucket::kSums);
}

}  // namespace rowgrad
