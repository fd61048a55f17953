#include <cmath>

#include <rowgrad/core/kernels/attention_scores.hpp>

namespace rowgrad::kernels {
namespace {

using blas::MatrixView;
using blas::transposed;

// Let P be the probabilities of a head, W = P ∘ kept the weights of v, and D = rowsum(dO ∘ O). Then
//   dV = Wᵀ dO,  dP = (dO Vᵀ) ∘ kept,  dS = P ∘ (dP − D),
//   dQ = dS K / √width,  dK = dSᵀ Q / √width.
// 1 / Σ exp and the dropout factor are the same for a whole row. The rows of dO are multiplied by
// both, and D by 1 / Σ exp. P then stands for the exponentials alone, and `kept` is 0 or 1.

constexpr std::size_t kQueries = 8 * kTileRows;  // queries whose scores for a panel stay in L1

real dot(const real* a, const real* b, std::size_t count) {
  Simd sum(real{0});
  for_vectors(0, count,
              [a, b, &sum](const auto& v) { sum = fma(v.load(a, 0), v.load(b, 0), sum); });
  return lanes::sum(sum);
}

// Inputs and outputs of the backward pass. The last three members are gradients that heads share:
// each head sums its own part, which starts at zero. Gradients that are not wanted are empty.
struct BackwardCall {
  const Attention& attention;
  const SoftmaxStats& softmax;
  HeadView<const real> output;
  HeadView<const real> upstream;
  AttentionOperands<real> gradients;
  ByDistance distance_bias;  // [batch · heads, keys]
  Tensor relative_keys;      // [batch · heads, relative_distances, panel_count(width) · kPanel]
  Tensor relative_values;    // [batch · heads, relative_distances, panel_count(width) · kPanel]
};

// The backward pass of heads on one thread, a panel of keys at a time.
class HeadBackward {
 public:
  explicit HeadBackward(BackwardCall& call)
      : call_(call),
        a_(call.attention),
        wants_scores_(call.gradients.q.data != nullptr || call.gradients.k.data != nullptr ||
                      call.gradients.distance_bias != nullptr ||
                      call.gradients.bias.data != nullptr ||
                      call.gradients.relative_keys != nullptr),
        scale_(1 / std::sqrt(static_cast<real>(a_.width))),
        bias_(a_.inputs.distance_bias != nullptr ? 1 : 0, a_.keys),
        stride_(panel_count(a_.width) * kPanel),
        upstream_(empty({a_.queries, stride_})),
        dots_(empty({a_.queries})),
        q_panels_(empty({panel_count(a_.width), a_.queries, kPanel})),
        upstream_panels_(empty(q_panels_.shape())),
        dq_(empty({a_.queries, stride_})),
        k_columns_(empty({a_.width, kPanel})),
        v_columns_(empty({a_.width, kPanel})),
        k_panels_(empty({kPanel, stride_})),
        dk_(empty({kPanel, stride_})),
        dv_(empty({kPanel, stride_})),
        scores_(empty({kQueries, kPanel})),
        gradients_(empty({kQueries, kPanel})),
        q_products_(a_.queries, a_.relative_distances),
        upstream_products_(a_.queries, a_.relative_distances),
        score_sums_(a_.queries, a_.relative_distances),
        weight_sums_(a_.queries, a_.relative_distances),
        relative_k_columns_(empty({panel_count(a_.relative_distances), a_.width, kPanel})),
        relative_v_columns_(empty(relative_k_columns_.shape())),
        relative_k_panels_(empty({panel_count(a_.width), a_.relative_distances, kPanel})) {
    const auto rows = [&](const real* table) {
      return MatrixView{table, a_.relative_distances, a_.width, a_.width};
    };
    pack_panels(transposed(rows(a_.inputs.relative_keys)), scale_, relative_k_columns_.data());
    pack_panels(transposed(rows(a_.inputs.relative_values)), 1, relative_v_columns_.data());
    pack_panels(rows(a_.inputs.relative_keys), scale_, relative_k_panels_.data());
  }

  void run(std::size_t head) {
    head_ = head;
    if (a_.inputs.distance_bias != nullptr)
      bias_.load(0, a_.inputs.distance_bias + head % a_.heads * a_.distances);
    load_queries();
    keys_ = key_length(a_, head);
    for (std::size_t key = 0; key < keys_; key += kPanel)
      add_keys(key, std::min(kPanel, keys_ - key));
    for (const HeadView<real>& to : {call_.gradients.k, call_.gradients.v}) clear_padding(to);
    if (a_.relative_distances > 0) add_distances();
    store(dq_, call_.gradients.q, 0, a_.queries);
  }

 private:
  MatrixView rows(const HeadView<const real>& x, std::size_t first, std::size_t count) const {
    return {rows_of(x, a_, head_) + first * x.row_stride, count, a_.width, x.row_stride};
  }

  void load_queries() {
    const MatrixView upstream = rows(call_.upstream, 0, a_.queries);
    const MatrixView output = rows(call_.output, 0, a_.queries);
    for (std::size_t i = 0; i < a_.queries; ++i) {
      const real* from = upstream.data + i * upstream.row_stride;
      const real inverse = call_.softmax.inverse_sum.data()[head_ * a_.queries + i];
      const Simd factor(inverse * a_.mask_factor);
      map_span(
          a_.width, upstream_.data() + i * stride_, [&](const Simd& x) { return x * factor; },
          from);
      dots_.data()[i] = inverse * dot(from, output.data + i * output.row_stride, a_.width);
    }
    pack_panels({upstream_.data(), a_.queries, a_.width, stride_}, 1, upstream_panels_.data());
    pack_panels(rows(a_.inputs.q, 0, a_.queries), scale_, q_panels_.data());
    dq_.fill(0);
    if (a_.relative_distances == 0) return;
    q_products_.multiply(rows(a_.inputs.q, 0, a_.queries), relative_k_columns_);
    upstream_products_.multiply({upstream_.data(), a_.queries, a_.width, stride_},
                                relative_v_columns_);
    score_sums_.clear();
    weight_sums_.clear();
  }

  // Adds the contribution of `count` keys, starting at `key`, to dQ, and computes dK and dV of
  // these keys.
  void add_keys(std::size_t key, std::size_t count) {
    pack_panels(transposed(rows(a_.inputs.k, key, count)), scale_, k_columns_.data());
    pack_panels(transposed(rows(a_.inputs.v, key, count)), 1, v_columns_.data());
    pack_panels(rows(a_.inputs.k, key, count), scale_, k_panels_.data());
    dk_.fill(0);
    dv_.fill(0);
    const std::size_t earlier = a_.keys - a_.queries;  // number of keys before the first query
    const std::size_t first = a_.causal && key > earlier ? key - earlier : 0;
    for (std::size_t query = first; query < a_.queries; query += kQueries)
      add_block(key, count, query, std::min(kQueries, a_.queries - query));
    store(dk_, call_.gradients.k, key, count);
    store(dv_, call_.gradients.v, key, count);
  }

  void add_block(std::size_t key, std::size_t keys, std::size_t query, std::size_t queries) {
    multiply_panel(rows(a_.inputs.q, query, queries), k_columns_.data(), {scores_.data()});
    if (wants_scores_)
      multiply_panel({upstream_.data() + query * stride_, queries, a_.width, stride_},
                     v_columns_.data(), {gradients_.data()});
    const auto by_distance = [&](std::size_t i, ByDistance& values) {
      return values.at(query + i, position_of(a_, query + i), key);
    };
    const std::size_t relative = a_.relative_distances > 0 ? queries : 0;
    for (std::size_t i = 0; i < relative; ++i) {
      add_panel(by_distance(i, q_products_), scores_.data() + i * kPanel);
      if (wants_scores_)
        add_panel(by_distance(i, upstream_products_), gradients_.data() + i * kPanel);
    }
    for (std::size_t i = 0; i < queries && a_.inputs.bias.data != nullptr; ++i)
      add_score_bias(a_, head_, query + i, key, keys, scores_.data() + i * kPanel);
    for (std::size_t i = 0; i < queries; ++i) differentiate(key, query + i, i * kPanel);
    for (std::size_t i = 0; i < relative; ++i) {
      add_panel(scores_.data() + i * kPanel, by_distance(i, weight_sums_));
      if (wants_scores_) add_panel(gradients_.data() + i * kPanel, by_distance(i, score_sums_));
    }
    for (std::size_t i = 0; i < queries && call_.gradients.bias.data != nullptr; ++i) {
      real* to = score_of(call_.gradients.bias, a_, head_, query + i, key);
      map_span(
          keys, to, [](const Simd& sum, const Simd& x) { return sum + x; }, to,
          gradients_.data() + i * kPanel);
    }

    const MatrixView weights{scores_.data(), queries, keys, kPanel};
    const MatrixView gradients{gradients_.data(), queries, keys, kPanel};
    if (call_.gradients.v.data != nullptr)
      add_product(transposed(weights), upstream_panels_, a_.queries, query, dv_.data());
    if (call_.gradients.k.data != nullptr)
      add_product(transposed(gradients), q_panels_, a_.queries, query, dk_.data());
    if (call_.gradients.q.data != nullptr)
      add_product(gradients, k_panels_, keys, 0, dq_.data() + query * stride_);
  }

  // Adds left · right to `to`, whose rows are whole panels. `right` is packed in panels of `rows`
  // rows; the product starts at row `first` of `right`.
  void add_product(const MatrixView& left, const Tensor& right, std::size_t rows, std::size_t first,
                   real* to) const {
    for (std::size_t column = 0; column < a_.width; column += kPanel)
      multiply_panel(left, right.data() + column * rows + first * kPanel,
                     {.data = to + column, .stride = stride_, .add = true});
  }

  // Replaces the scores of one query, at `offset`, by weights, and the gradients of the weights by
  // gradients of the scores.
  void differentiate(std::size_t key, std::size_t query, std::size_t offset) {
    const Simd zero(real{0});
    const std::size_t position = position_of(a_, query);
    const std::size_t seen = seen_keys(a_, query, keys_);
    const std::size_t row = head_ * a_.queries + query;
    const Simd largest(call_.softmax.largest.data()[row]);
    const Simd row_dot(dots_.data()[query]);
    const bool has_bias = a_.inputs.distance_bias != nullptr;
    const real* bias = has_bias ? bias_.at(0, position, 0) : nullptr;
    real* const bias_sums = call_.gradients.distance_bias != nullptr
                                ? call_.distance_bias.at(head_, position, key)
                                : nullptr;
    const std::uint32_t kept = a_.mask.empty() ? 0 : mask_bits(a_.mask, row * a_.keys + key);
    for (std::size_t lane = 0; lane < kPanel; lane += kLanes) {
      const auto where_used = [&](const Simd& x) {
        return a_.mask.empty() ? x : where_kept(kept >> lane, x);
      };
      real* at = scores_.data() + offset + lane;
      Simd score = Simd::load_aligned(at);
      if (bias != nullptr) score += Simd::load_unaligned(bias + key + lane);
      const Simd exponential = exp(score - largest);
      where_seen(key + lane, seen, where_used(exponential), zero).store_aligned(at);
      if (!wants_scores_) continue;
      real* to = gradients_.data() + offset + lane;
      const Simd gradient = where_seen(
          key + lane, seen, exponential * (where_used(Simd::load_aligned(to)) - row_dot), zero);
      gradient.store_aligned(to);
      if (bias_sums == nullptr) continue;
      (Simd::load_unaligned(bias_sums + lane) + gradient).store_unaligned(bias_sums + lane);
    }
  }

  // Adds the contribution of relative keys to dQ, and computes the gradients of both relative
  // tables.
  void add_distances() {
    const std::size_t distances = a_.relative_distances;
    for (std::size_t i = 0; i < a_.queries; ++i) {
      score_sums_.add_up(i);
      weight_sums_.add_up(i);
    }
    const MatrixView by_score = score_sums_.rows(0, a_.queries);
    const MatrixView by_weight = weight_sums_.rows(0, a_.queries);
    const std::size_t own = head_ * distances * stride_;  // offset of the head's tables
    if (call_.gradients.q.data != nullptr)
      add_product(by_score, relative_k_panels_, distances, 0, dq_.data());
    if (call_.gradients.relative_keys != nullptr)
      add_product(transposed(by_score), q_panels_, a_.queries, 0, call_.relative_keys.data() + own);
    if (call_.gradients.relative_values != nullptr)
      add_product(transposed(by_weight), upstream_panels_, a_.queries, 0,
                  call_.relative_values.data() + own);
  }

  void clear_padding(const HeadView<real>& to) {
    if (to.data == nullptr) return;
    for (std::size_t key = keys_; key < a_.keys; ++key)
      std::fill_n(rows_of(to, a_, head_) + key * to.row_stride, a_.width, real{0});
  }

  void store(const Tensor& from, const HeadView<real>& to, std::size_t first, std::size_t count) {
    if (to.data == nullptr) return;
    real* row = rows_of(to, a_, head_) + first * to.row_stride;
    for (std::size_t i = 0; i < count; ++i, row += to.row_stride)
      map_span(
          a_.width, row, [](const Simd& x) { return x; }, from.data() + i * stride_);
  }

  BackwardCall& call_;
  const Attention& a_;
  bool wants_scores_;
  real scale_;
  ByDistance bias_;     // biases of the head
  std::size_t stride_;  // values in a row of whole panels
  std::size_t head_ = 0;
  std::size_t keys_ = 0;    // keys of the head without padding
  Tensor upstream_;         // dO, scaled as described above
  Tensor dots_;             // D, scaled as described above
  Tensor q_panels_;         // q / √width in panels of columns
  Tensor upstream_panels_;  // dO in panels of columns
  Tensor dq_;
  // For a panel of keys:
  Tensor k_columns_;  // kᵀ / √width
  Tensor v_columns_;  // vᵀ
  Tensor k_panels_;   // k / √width in panels of columns
  Tensor dk_;
  Tensor dv_;
  Tensor scores_;     // [kQueries, kPanel], later the weights
  Tensor gradients_;  // gradients of the weights, later of the scores
  // For relative keys and values:
  ByDistance q_products_;         // q · relative keys
  ByDistance upstream_products_;  // dO · relative values
  ByDistance score_sums_;         // sums of the gradients of scores
  ByDistance weight_sums_;        // sums of the weights
  Tensor relative_k_columns_;     // relative keys, packed like k_columns_
  Tensor relative_v_columns_;     // relative values, packed like v_columns_
  Tensor relative_k_panels_;      // relative keys, packed like k_panels_
};

// Sums the gradients of a relative table over heads, in the order of heads.
void add_heads(const Tensor& by_head, const Attention& attention, real* table) {
  if (table == nullptr) return;
  const std::size_t rows = attention.relative_distances;
  std::fill_n(table, rows * attention.width, real{0});
  for (std::size_t i = 0; i < by_head.shape()[0] * rows; ++i) {
    real* to = table + i % rows * attention.width;
    map_span(
        attention.width, to, [](const Simd& sum, const Simd& x) { return sum + x; }, to,
        by_head.data() + i * by_head.shape()[2]);
  }
}

}  // namespace

void attention_backward(const Attention& attention, const SoftmaxStats& softmax,
                        const HeadView<const real>& output, const HeadView<const real>& upstream,
                        const AttentionOperands<real>& gradients) {
  const std::size_t heads = attention.batch * attention.heads;
  const auto head_tables = [&](const real* gradient) {
    return zeros({gradient != nullptr ? heads : 0, attention.relative_distances,
                  panel_count(attention.width) * kPanel});
  };
  BackwardCall call{attention,
                    softmax,
                    output,
                    upstream,
                    gradients,
                    ByDistance(gradients.distance_bias != nullptr ? heads : 0, attention.keys),
                    head_tables(gradients.relative_keys),
                    head_tables(gradients.relative_values)};
  // Heads that add to the same gradient of the bias run on one thread, in the order of the batch.
  const bool shares_bias = gradients.bias.data != nullptr && gradients.bias.strides[0] == 0;
  const std::size_t items = shares_bias ? std::min(attention.heads, heads) : heads;
  const std::size_t work = attention.queries * attention.keys * attention.width *
                           (heads / std::max<std::size_t>(items, 1));
  const std::size_t ranges = range_count(items, row_grain(work));
  std::vector<HeadBackward> of_range;
  of_range.reserve(ranges);
  for (std::size_t i = 0; i < ranges; ++i) of_range.emplace_back(call);
  parallel_for(items, row_grain(work), [&](std::size_t begin, std::size_t end, std::size_t range) {
    for (std::size_t item = begin; item < end; ++item)
      for (std::size_t head = item; head < heads; head += items) of_range[range].run(head);
  });
  add_heads(call.relative_keys, attention, gradients.relative_keys);
  add_heads(call.relative_values, attention, gradients.relative_values);
  if (gradients.distance_bias == nullptr) return;
  std::fill_n(gradients.distance_bias, attention.heads * attention.distances, real{0});
  for (std::size_t head = 0; head < heads; ++head)
    for (std::size_t distance = 0; distance < attention.keys; ++distance)
      gradients.distance_bias[head % attention.heads * attention.distances + distance] +=
          *call.distance_bias.at(head, distance, 0);
}

}  // namespace rowgrad::kernels
