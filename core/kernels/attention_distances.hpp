#pragma once

// What attention needs for relative keys and values (Shaw, Uszkoreit & Vaswani 2018): a number for
// each query and distance. A score q · (k + row) is q · k + q · row, where the second products,
// with the few rows of a table, are added by distance. A result Σ weight · (v + row) is Σ weight ·
// v and the rows times the weights, summed by distance.

#include <algorithm>
#include <numeric>

#include <rowgrad/core/kernels/attention_scores.hpp>

namespace rowgrad::kernels {

/// Numbers [rows, distances] of some queries, the farthest distance first: that is the order of the
/// keys. The first number is that of all keys that are at least as far away.
class ByDistance {
 public:
  ByDistance(std::size_t rows, std::size_t distances)
      : distances_(distances),
        stride_((panel_count(distances) + 2) * kPanel),
        numbers_(zeros({distances > 0 ? rows : 0, stride_})) {}

  /// The rows from `first` on.
  LeftFactor rows(std::size_t first) const {
    return {numbers_.data() + first * stride_ + kPanel, stride_, 1, distances_};
  }
  /// A column for each of the queries: the transpose.
  LeftFactor transposed(std::size_t queries) const {
    return {numbers_.data() + kPanel, 1, stride_, queries};
  }

  /// The numbers for the panel of keys from `key` on, for the query at `position`. Those of later
  /// keys are meaningless.
  real* at(std::size_t i, std::size_t position, std::size_t key) {
    const std::size_t place = key + distances_ - 1 + kPanel;
    return numbers_.data() + i * stride_ + std::max(place, position) - position;
  }

  /// Writes the products of `count` rows with those of a table, given as transposed panels.
  void multiply(const LeftFactor& rows, std::size_t count, const Tensor& table) {
    for (std::size_t panel = 0; panel < table.shape()[0]; ++panel)
      multiply_panel(rows, count, table.data() + panel * rows.length * kPanel,
                     {row(0) + panel * kPanel, stride_});
    for (std::size_t i = 0; i < count; ++i) std::fill_n(row(i) - kPanel, kPanel, *row(i));
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

}  // namespace rowgrad::kernels
