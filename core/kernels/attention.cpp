#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <rowgrad/core/kernels/attention_scores.hpp>

namespace rowgrad::kernels {
namespace {

using blas::MatrixView;
using blas::transposed;

// Rotates one head. Requires: the arrays do not overlap, so that the compiler can vectorize.
void rotate_halves(std::size_t pairs, const real* __restrict x, const real* __restrict cosine,
                   const real* __restrict sine, real sign, real* __restrict y) {
  for (std::size_t i = 0; i < pairs; ++i) {
    const real a = x[i];
    const real b = x[i + pairs];
    const real s = sign * sine[i];
    y[i] = a * cosine[i] - b * s;
    y[i + pairs] = a * s + b * cosine[i];
  }
}

void rotate_interleaved(std::size_t pairs, const real* __restrict x, const real* __restrict cosine,
                        const real* __restrict sine, real sign, real* __restrict y) {
  for (std::size_t i = 0; i < pairs; ++i) {
    const real a = x[2 * i];
    const real b = x[2 * i + 1];
    const real s = sign * sine[i];
    y[2 * i] = a * cosine[i] - b * s;
    y[2 * i + 1] = a * s + b * cosine[i];
  }
}

}  // namespace

void rotate_rows(const RotaryColumns& columns, const real* x, std::size_t rows, std::size_t length,
                 std::size_t heads, std::size_t head_width, const real* cosines, const real* sines,
                 real sign, real* y) {
  const std::size_t pairs = columns.pairs;
  const std::size_t width = heads * head_width;
  const auto rotate = columns.interleaved ? rotate_interleaved : rotate_halves;
  parallel_for(rows, row_grain(width), [&](std::size_t begin, std::size_t end) {
    std::vector<real> copy(x == y ? width : 0);  // a copy of the row that is overwritten
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t angles = row % length * pairs;
      const real* from = x + row * width;
      real* to = y + row * width;
      if (x == y) {
        std::copy_n(from, width, copy.data());
        from = copy.data();
      }
      for (std::size_t first = 0; first < width; first += head_width) {
        rotate(pairs, from + first, cosines + angles, sines + angles, sign, to + first);
        std::copy(from + first + 2 * pairs, from + first + head_width, to + first + 2 * pairs);
      }
    }
  });
}

namespace {

constexpr std::size_t kQueries = 2 * kTileRows;  // the scores of a block stay in the L1 cache

// The forward pass of heads on one thread, a block of queries at a time. For a single query, as in
// generating text token by token, packing all keys and values would take longer than the products.
// So a single query reads values in place, and packs keys one panel at a time. Both ways give the
// same bits.
class Forward {
 public:
  Forward(const Attention& attention, const HeadView<real>& output, SoftmaxStats* softmax)
      : attention_(attention),
        output_(output),
        softmax_(softmax),
        bias_(attention.inputs.distance_bias != nullptr ? 1 : 0, attention.keys),
        stride_(panel_count(attention.keys) * kPanel + kLanes),  // spreads rows over cache sets
        copies_(attention.queries > 1),
        k_(empty({copies_ ? panel_count(attention.keys) : 1, attention.width, kPanel})),
        v_(empty({copies_ ? panel_count(attention.width) : 0, attention.keys, kPanel})),
        scores_(empty({kQueries, stride_})),
        products_(kQueries, attention.relative_distances),
        weights_(kQueries, attention.relative_distances),
        relative_k_(empty({panel_count(attention.relative_distances), attention.width, kPanel})),
        relative_v_(empty({panel_count(attention.width), attention.relative_distances, kPanel})) {
    const auto rows = [&](const real* table) {
      return MatrixView{table, attention.relative_distances, attention.width, attention.width};
    };
    pack_panels(transposed(rows(attention.inputs.relative_keys)), scale(), relative_k_.data());
    pack_panels(rows(attention.inputs.relative_values), 1, relative_v_.data());
  }

  void load(std::size_t head) {
    const Attention& a = attention_;
    head_ = head;
    keys_ = key_length(a, head);
    if (copies_ && keys().data != loaded_) {
      const HeadView<const real>& v = a.inputs.v;
      loaded_ = keys().data;
      pack_panels(transposed(keys()), scale(), k_.data());
      pack_panels({rows_of(v, a, head), keys_, a.width, v.row_stride}, 1, v_.data());
    }
    if (a.inputs.distance_bias != nullptr)
      bias_.load(0, a.inputs.distance_bias + head % a.heads * a.distances);
  }

  // Computes the output of `count` queries, starting at query `first`.
  void attend(std::size_t first, std::size_t count) {
    const Attention& a = attention_;
    const MatrixView q{rows_of(a.inputs.q, a, head_) + first * a.inputs.q.row_stride, count,
                       a.width, a.inputs.q.row_stride};
    for (std::size_t panel = 0; panel < panel_count(seen(first + count - 1)); ++panel)
      multiply_panel(q, panel_of_keys(panel), {scores_.data() + panel * kPanel, stride_});
    if (a.relative_distances > 0) add_relative_keys(q, first);
    weights_.clear();
    for (std::size_t tile = 0; tile < count; tile += kTileRows) {
      const std::size_t rows = std::min(kTileRows, count - tile);
      std::array<real, kTileRows> factors;
      // The last query of a tile sees the most keys.
      const std::size_t most = seen(first + tile + rows - 1);
      for (std::size_t i = tile; i < tile + rows; ++i)
        factors[i - tile] = exponentiate(first + i, scores_.data() + i * stride_, most);
      if (a.relative_distances > 0) sum_weights(first, tile, rows);
      multiply_v(first + tile, rows, most, factors.data());
    }
  }

 private:
  std::size_t position(std::size_t query) const { return position_of(attention_, query); }
  std::size_t seen(std::size_t query) const { return seen_keys(attention_, query, keys_); }
  real scale() const { return 1 / std::sqrt(static_cast<real>(attention_.width)); }

  MatrixView keys() const {
    const HeadView<const real>& k = attention_.inputs.k;
    return {rows_of(k, attention_, head_), keys_, attention_.width, k.row_stride};
  }

  const real* panel_of_keys(std::size_t panel) {
    if (copies_) return k_.data() + panel * attention_.width * kPanel;
    MatrixView part = keys();
    part.data = part.at(panel * kPanel, 0);
    part.rows = std::min(kPanel, keys_ - panel * kPanel);
    pack_panels(transposed(part), scale(), k_.data());
    return k_.data();
  }

  // Computes the weighted sum of the values for a single query.
  void add_values(std::size_t keys, real* to) {
    const std::size_t row = attention_.inputs.v.row_stride;
    const real* v = rows_of(attention_.inputs.v, attention_, head_);
    std::fill_n(to, attention_.width, real{0});
    for (std::size_t key = 0; key < keys; ++key) {
      const Simd weight(scores_.data()[key]);
      map_span(
          attention_.width, to,
          [&](const Simd& sum, const Simd& value) { return fma(weight, value, sum); }, to,
          v + key * row);
    }
  }

  void add_relative_keys(const MatrixView& q, std::size_t first) {
    products_.multiply(q, relative_k_);
    for (std::size_t i = 0; i < q.rows; ++i)
      for (std::size_t key = 0; key < seen(first + i); key += kPanel)
        add_panel(products_.at(i, position(first + i), key), scores_.data() + i * stride_ + key);
  }

  // Sums weights by distance, for queries tile to tile + count − 1 of the block that starts at
  // query `first`.
  void sum_weights(std::size_t first, std::size_t tile, std::size_t count) {
    for (std::size_t i = tile; i < tile + count; ++i) {
      for (std::size_t key = 0; key < seen(first + i); key += kPanel)
        add_panel(scores_.data() + i * stride_ + key, weights_.at(i, position(first + i), key));
      weights_.add_up(i);
    }
  }

  // Replaces a query's scores by their exponentials. Dropped keys, and keys after the last panel
  // that the query sees, get zeros up to key `end`. Returns the factor that turns the exponentials
  // into the weights of v.
  real exponentiate(std::size_t query, real* scores, std::size_t end) {
    const Attention& a = attention_;
    const std::size_t row = head_ * a.queries + query;
    const std::size_t own_end = panel_count(seen(query)) * kPanel;
    const bool has_bias = a.inputs.bias.data != nullptr;
    if (has_bias) add_score_bias(a, head_, query, 0, seen(query), scores);
    real largest = add_distance_bias(scores, query);
    const bool sees_none = has_bias && largest == -std::numeric_limits<real>::infinity();
    if (sees_none) largest = 0;
    const Simd shift(largest);
    std::array<Simd, 2> sums{Simd(real{0}), Simd(real{0})};
    for (std::size_t key = 0; key < own_end; key += kPanel) {
      const std::uint32_t kept =
          a.mask.empty() ? ~std::uint32_t{0} : mask_bits(a.mask, row * a.keys + key);
      for (std::size_t half = 0; half < 2; ++half) {
        real* at = scores + key + half * kLanes;
        const Simd exponential = exp(Simd::load_aligned(at) - shift);
        sums[half] += exponential;
        (a.mask.empty() ? exponential : where_kept(kept >> half * kLanes, exponential))
            .store_aligned(at);
      }
    }
    if (own_end < end) std::fill(scores + own_end, scores + end, real{0});
    const real inverse_sum = sees_none ? 0 : 1 / lanes::sum(sums[0] + sums[1]);
    if (softmax_ != nullptr) {
      softmax_->largest.data()[row] = largest;
      softmax_->inverse_sum.data()[row] = inverse_sum;
    }
    return inverse_sum * a.mask_factor;
  }

  // Adds the distance bias, masks unseen keys of the last panel, and returns the largest score.
  real add_distance_bias(real* scores, std::size_t query) {
    const Simd never(-std::numeric_limits<real>::infinity());
    const bool has_bias = attention_.inputs.distance_bias != nullptr;
    const real* bias = has_bias ? bias_.at(0, position(query), 0) : nullptr;
    const std::size_t count = seen(query);
    std::array<Simd, 2> largest{never, never};
    for (std::size_t key = 0; key < count; key += kPanel)
      for (std::size_t half = 0; half < 2; ++half) {
        const std::size_t at = key + half * kLanes;
        Simd score = Simd::load_aligned(scores + at);
        if (bias != nullptr) score += Simd::load_unaligned(bias + at);
        const bool all_seen = at + kLanes <= count;
        if (!all_seen) score = where_seen(at, count, score, never);
        if (!all_seen || bias != nullptr) score.store_aligned(scores + at);
        largest[half] = max(largest[half], score);
      }
    return lanes::largest(max(largest[0], largest[1]));
  }

  void multiply_v(std::size_t query, std::size_t rows, std::size_t keys, const real* factors) {
    const Attention& a = attention_;
    const real* weights = scores_.data() + query % kQueries * stride_;
    real* to = rows_of(output_, a, head_) + query * output_.row_stride;
    if (!copies_) add_values(keys, to);
    for (std::size_t column = 0; column < a.width; column += kPanel) {
      PanelResult result{.data = to + column,
                         .stride = output_.row_stride,
                         .columns = std::min(kPanel, a.width - column)};
      if (copies_)
        multiply_panel({weights, rows, keys, stride_}, v_.data() + column * keys_, result);
      if (a.relative_distances == 0) continue;
      result.add = true;
      multiply_panel(weights_.rows(query % kQueries, rows),
                     relative_v_.data() + column * a.relative_distances, result);
    }
    for (std::size_t i = 0; i < rows; ++i) {
      real* row = to + i * output_.row_stride;
      const Simd factor(factors[i]);
      map_span(
          a.width, row, [&](const Simd& x) { return x * factor; }, row);
    }
  }

  const Attention& attention_;
  HeadView<real> output_;
  SoftmaxStats* softmax_;
  ByDistance bias_;  // biases of the head
  std::size_t head_ = 0;
  std::size_t keys_ = 0;          // keys of the head without padding
  const real* loaded_ = nullptr;  // keys that k_ and v_ contain, which heads may share
  std::size_t stride_;
  bool copies_;          // true: packs all keys and values of a head
  Tensor k_;             // kᵀ / √width in panels of keys, or a single panel
  Tensor v_;             // v in panels of columns
  Tensor scores_;        // [kQueries, stride_]
  ByDistance products_;  // q · relative keys
  ByDistance weights_;
  Tensor relative_k_;  // relative keys, packed like k_
  Tensor relative_v_;  // relative values, packed like v_
};

}  // namespace

void attention_forward(const Attention& attention, const HeadView<real>& output,
                       SoftmaxStats* softmax) {
  const std::size_t blocks = (attention.queries + kQueries - 1) / kQueries;
  const std::size_t work = kQueries * attention.keys * attention.width;
  const std::size_t items = attention.batch * attention.heads * blocks;
  const std::size_t ranges = range_count(items, row_grain(work));
  std::vector<Forward> forwards;
  forwards.reserve(ranges);
  for (std::size_t i = 0; i < ranges; ++i) forwards.emplace_back(attention, output, softmax);
  parallel_for(items, row_grain(work), [&](std::size_t begin, std::size_t end, std::size_t range) {
    Forward& forward = forwards[range];
    for (std::size_t item = begin; item < end; ++item) {
      if (item == begin || item % blocks == 0) forward.load(item / blocks);
      // Blocks 0, n − 1, 1, n − 2 …: later queries see more keys, so this order balances threads.
      const std::size_t turn = item % blocks;
      const std::size_t block = turn % 2 == 0 ? turn / 2 : blocks - 1 - turn / 2;
      const std::size_t first = block * kQueries;
      forward.attend(first, std::min(kQueries, attention.queries - first));
    }
  });
}

}  // namespace rowgrad::kernels
