#pragma once

// What the two directions of attention share: which scores count, the bias that is added to them,
// the bits of dropout, and the rows that are added to keys and values by distance. Keys lie side by
// side in the lanes of a vector.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <type_traits>

#include <rowgrad/core/kernels/attention.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/panels.hpp>

namespace rowgrad::kernels {

/// Numbers [rows, distances] to be added to scores, or sums of them, the farthest distance first:
/// that is the order of the keys. The first number is that of all keys that are at least as far
/// away.
///
/// A row may be the biases of a head. Or it belongs to a query, for relative keys and values (Shaw,
/// Uszkoreit & Vaswani 2018): a score q · (k + row) is q · k + q · row, where the second products,
/// with the few rows of a table, are added by distance. A result Σ weight · (v + row) is Σ weight ·
/// v and the rows times the weights, summed by distance.
class ByDistance {
 public:
  ByDistance(std::size_t rows, std::size_t distances)
      : distances_(distances),
        stride_((panel_count(distances) + 2) * kPanel),
        numbers_(zeros({distances > 0 ? rows : 0, stride_})) {}

  /// `count` of the rows, from `first` on.
  blas::MatrixView rows(std::size_t first, std::size_t count) const {
    return {numbers_.data() + first * stride_ + kPanel, count, distances_, stride_};
  }

  /// The numbers of row i for the panel of keys from `key` on, seen from `position`. Those of later
  /// keys are meaningless. Where no key is farther than the distances, panels adjoin.
  real* at(std::size_t i, std::size_t position, std::size_t key) {
    const std::size_t nearest = key + distances_ - 1 + kPanel;
    return numbers_.data() + i * stride_ + std::max(nearest, position) - position;
  }

  /// Sets a row to these numbers, by distance.
  void load(std::size_t i, const real* numbers) {
    if (distances_ > 0) std::reverse_copy(numbers, numbers + distances_, row(i));
  }

  /// Writes the products of rows with those of a table, given as transposed panels.
  void multiply(const blas::MatrixView& rows, const Tensor& table) {
    for (std::size_t panel = 0; panel < table.shape()[0]; ++panel)
      multiply_panel(rows, table.data() + panel * rows.columns * kPanel,
                     {row(0) + panel * kPanel, stride_});
    for (std::size_t i = 0; i < rows.rows; ++i) std::fill_n(row(i) - kPanel, kPanel, *row(i));
  }

  /// For sums: begins with zeros, and at the end adds up those of the keys that are farther away.
  void clear() { numbers_.fill(0); }
  void add_up(std::size_t i) { *row(i) = std::accumulate(row(i) - kPanel, row(i), *row(i)); }

 private:
  real* row(std::size_t i) { return numbers_.data() + i * stride_ + kPanel; }

  std::size_t distances_;
  std::size_t stride_;  // a panel of keys farther away, the distances, a panel read beyond them
  Tensor numbers_;
};

/// Adds a panel of numbers to another.
inline void add_panel(const real* from, real* to) {
  map_span(
      kPanel, to, [](const Simd& x, const Simd& y) { return x + y; }, to, from);
}

/// The rows of one head.
template <class Number>
Number* rows_of(const HeadView<Number>& rows, const Attention& attention, std::size_t head) {
  if (rows.data == nullptr) return nullptr;  // there are none, or none are wanted
  return rows.data + head / attention.heads * rows.batch_stride +
         head % attention.heads * attention.width;
}

/// How many keys of a head count; the others are padding.
inline std::size_t key_length(const Attention& attention, std::size_t head) {
  return attention.key_lengths.empty() ? attention.keys
                                       : attention.key_lengths[head / attention.heads];
}

/// The index of a query among the keys, if attention is causal.
inline std::size_t position_of(const Attention& attention, std::size_t query) {
  return query + attention.keys - attention.queries;
}

/// How many of the `length` keys that count a query sees: the first ones.
inline std::size_t seen_keys(const Attention& attention, std::size_t query, std::size_t length) {
  return attention.causal ? std::min(position_of(attention, query) + 1, length) : length;
}

/// x in the lanes whose key, the first of which is `key`, is one of the first `seen`, and `other`
/// elsewhere.
inline Simd where_seen(std::size_t key, std::size_t seen, const Simd& x, const Simd& other) {
  static constexpr auto kNumbers = [] {
    std::array<real, kLanes> numbers{};
    for (std::size_t i = 0; i < kLanes; ++i) numbers[i] = static_cast<real>(i);
    return numbers;
  }();
  if (key + kLanes <= seen) return x;
  const Simd count(static_cast<real>(seen) - static_cast<real>(key));
  return select(Simd::load_unaligned(kNumbers.data()) < count, x, other);
}

/// x in the lanes whose bit is set, and 0 elsewhere.
inline Simd where_kept(std::uint32_t bits, const Simd& x) {
  // The bits are put into the mantissa of 1: the vectors of numbers can compare them there.
  using Word = std::conditional_t<sizeof(real) == 8, std::uint64_t, std::uint32_t>;
  static constexpr Word kOne = std::bit_cast<Word>(real{1});
  static constexpr auto kLaneBits = [] {
    std::array<real, kLanes> numbers{};
    for (std::size_t i = 0; i < kLanes; ++i) numbers[i] = std::bit_cast<real>(kOne | Word{1} << i);
    return numbers;
  }();
  const Word own_bits = bits & ((Word{1} << kLanes) - 1);
  const Simd bit(std::bit_cast<real>(kOne | own_bits));
  const Simd chosen(bit.batch() & Simd::load_unaligned(kLaneBits.data()).batch());
  return select(chosen != Simd(real{1}), x, Simd(real{0}));
}

/// 32 bits of the mask from bit `first` on. Those beyond the mask have any value.
inline std::uint32_t mask_bits(const DropoutMask& mask, std::size_t first) {
  const std::size_t word = first / 32;
  const std::size_t next = std::min(word + 1, mask.size() - 1);
  const std::uint64_t both = mask[word] | std::uint64_t{mask[next]} << 32;
  return static_cast<std::uint32_t>(both >> first % 32);
}

}  // namespace rowgrad::kernels
