#pragma once

// Helpers of both attention passes: masked scores, biases by distance, dropout bits, and relative
// keys and values. Keys lie side by side in the lanes of a vector.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include <rowgrad/core/kernels/attention.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/panels.hpp>

namespace rowgrad::kernels {

/// Values [rows, distances] that are added to scores, or sums of weights or gradients. Columns go
/// from the farthest distance to 0, in the order of keys. The first column also covers keys that
/// are farther away.
///
/// A row has the biases of a head, or belongs to a query with relative keys and values r (Shaw,
/// Uszkoreit & Vaswani 2018). A score q · (k + r) is q · k + q · r, so the products q · r are added
/// by distance. A result Σ weight · (v + r) is Σ weight · v + Σ weight · r, so weights are summed
/// by distance.
class ByDistance {
 public:
  ByDistance(std::size_t rows, std::size_t distances)
      : distances_(distances),
        stride_((panel_count(distances) + 2) * kPanel),
        values_(zeros({distances > 0 ? rows : 0, stride_})) {}

  /// Returns `count` rows, from `first` on.
  blas::MatrixView rows(std::size_t first, std::size_t count) const {
    return {values_.data() + first * stride_ + kPanel, count, distances_, stride_};
  }

  /// Returns the values of row i for the panel of keys from `key` on, seen from `position`. Values
  /// for keys after `position` are meaningless. Panels are contiguous if no key is farther than
  /// `distances`.
  real* at(std::size_t i, std::size_t position, std::size_t key) {
    const std::size_t nearest = key + distances_ - 1 + kPanel;
    return values_.data() + i * stride_ + std::max(nearest, position) - position;
  }

  /// Sets row i to `values`, which start at distance 0.
  void load(std::size_t i, const real* values) {
    if (distances_ > 0) std::reverse_copy(values, values + distances_, row(i));
  }

  /// Writes rows · tableᵀ, given the packed panels of tableᵀ.
  void multiply(const blas::MatrixView& rows, const Tensor& table) {
    for (std::size_t panel = 0; panel < table.shape()[0]; ++panel)
      multiply_panel(rows, table.data() + panel * rows.columns * kPanel,
                     {row(0) + panel * kPanel, stride_});
    for (std::size_t i = 0; i < rows.rows; ++i) std::fill_n(row(i) - kPanel, kPanel, *row(i));
  }

  /// Sets all values to zero, before sums.
  void clear() { values_.fill(0); }
  /// Completes row i: adds the sums of keys that are farther away to the first column.
  void add_up(std::size_t i) { *row(i) = std::accumulate(row(i) - kPanel, row(i), *row(i)); }

 private:
  real* row(std::size_t i) { return values_.data() + i * stride_ + kPanel; }

  std::size_t distances_;
  std::size_t stride_;  // a panel for farther keys, the distances, a panel for reads beyond them
  Tensor values_;
};

/// Adds the panel `from` to the panel `to`.
inline void add_panel(const real* from, real* to) {
  map_span(
      kPanel, to, [](const Simd& x, const Simd& y) { return x + y; }, to, from);
}

/// Returns the first row of one head, or null if `rows` is null.
template <class Number>
Number* rows_of(const HeadView<Number>& rows, const Attention& attention, std::size_t head) {
  if (rows.data == nullptr) return nullptr;
  return rows.data + head / attention.heads * rows.batch_stride +
         head % attention.heads / rows.group * attention.width;
}

/// Returns the value for the score of one query and key of one head.
template <class Number>
Number* score_of(const ScoreView<Number>& scores, const Attention& attention, std::size_t head,
                 std::size_t query, std::size_t key) {
  const std::array<std::size_t, 4>& strides = scores.strides;
  return scores.data + head / attention.heads * strides[0] + head % attention.heads * strides[1] +
         query * strides[2] + key * strides[3];
}

/// Adds the biases of one query and of `count` keys, starting at `key`, to their scores.
inline void add_score_bias(const Attention& attention, std::size_t head, std::size_t query,
                           std::size_t key, std::size_t count, real* scores) {
  const ScoreView<const real>& bias = attention.inputs.bias;
  map_repeated(
      count, scores, [](const Simd& x, const Simd& y) { return x + y; },
      std::array<const real*, 2>{scores, score_of(bias, attention, head, query, key)},
      {1, bias.strides[3]}, std::make_index_sequence<2>());
}

/// Returns the number of keys of a head that are not padding.
inline std::size_t key_length(const Attention& attention, std::size_t head) {
  return attention.key_lengths.empty() ? attention.keys
                                       : attention.key_lengths[head / attention.heads];
}

/// Returns the position of a query among the keys, for causal attention.
inline std::size_t position_of(const Attention& attention, std::size_t query) {
  return query + attention.keys - attention.queries;
}

/// Returns how many of the first `length` keys a query sees.
inline std::size_t seen_keys(const Attention& attention, std::size_t query, std::size_t length) {
  return attention.causal ? std::min(position_of(attention, query) + 1, length) : length;
}

/// Returns x in the lanes whose key is below `seen`, and `other` elsewhere. Lane 0 is for `key`.
inline Simd where_seen(std::size_t key, std::size_t seen, const Simd& x, const Simd& other) {
  static constexpr auto kLaneIndices = [] {
    std::array<real, kLanes> indices{};
    for (std::size_t i = 0; i < kLanes; ++i) indices[i] = static_cast<real>(i);
    return indices;
  }();
  if (key + kLanes <= seen) return x;
  const Simd count(static_cast<real>(seen) - static_cast<real>(key));
  return select(Simd::load_unaligned(kLaneIndices.data()) < count, x, other);
}

/// Returns x in the lanes whose bit is set, and 0 elsewhere.
inline Simd where_kept(std::uint32_t bits, const Simd& x) {
  // Puts the bits into the mantissa of 1, where floating-point vectors can compare them.
  using Word = std::conditional_t<sizeof(real) == 8, std::uint64_t, std::uint32_t>;
  static constexpr Word kOne = std::bit_cast<Word>(real{1});
  static constexpr auto kLaneBits = [] {
    std::array<real, kLanes> values{};
    for (std::size_t i = 0; i < kLanes; ++i) values[i] = std::bit_cast<real>(kOne | Word{1} << i);
    return values;
  }();
  const Word own_bits = bits & ((Word{1} << kLanes) - 1);
  const Simd bit(std::bit_cast<real>(kOne | own_bits));
  const Simd chosen(bit.batch() & Simd::load_unaligned(kLaneBits.data()).batch());
  return select(chosen != Simd(real{1}), x, Simd(real{0}));
}

/// Returns 32 bits of the mask from bit `first` on. Bits beyond the end are unspecified.
inline std::uint32_t mask_bits(const DropoutMask& mask, std::size_t first) {
  const std::size_t word = first / 32;
  const std::size_t next = std::min(word + 1, mask.size() - 1);
  const std::uint64_t both = mask[word] | std::uint64_t{mask[next]} << 32;
  return static_cast<std::uint32_t>(both >> first % 32);
}

}  // namespace rowgrad::kernels
