#include <algorithm>
#include <array>
#include <utility>

#include <rowgrad/core/kernels/panels.hpp>

namespace rowgrad::kernels {

using blas::MatrixView;

namespace {

// Loads `count` ≤ kLanes values; the other lanes get 0.
Simd load_padded(const real* from, std::size_t count) {
  return count == kLanes ? Simd::load_unaligned(from) : load_partial(from, count, 0);
}

// Stores one row of a panel, or adds it if result.add.
void put(const Simd& left, const Simd& right, const PanelResult& result, real* to) {
  (result.add ? left + Simd::load_unaligned(to) : left).store_unaligned(to);
  (result.add ? right + Simd::load_unaligned(to + kLanes) : right).store_unaligned(to + kLanes);
}

// Stores or adds a row with fewer columns than a panel.
[[gnu::noinline]] void put_part(const Simd& left, const Simd& right, const PanelResult& result,
                                real* to) {
  alignas(64) std::array<real, kPanel> whole;
  left.store_aligned(whole.data());
  right.store_aligned(whole.data() + kLanes);
  for (std::size_t j = 0; j < result.columns; ++j) to[j] = result.add ? whole[j] + to[j] : whole[j];
}

// Computes `tiles` tiles of `Rows` rows each, from row `first` on. `Segmented` is true if
// segment_step is not 0. It is a template argument, so that the inner loop has a constant length
// and no mispredicted end.
template <std::size_t Rows, bool Segmented>
void multiply_tiles(const MatrixView& a, std::size_t segment_step, std::size_t first,
                    std::size_t tiles, const real* const panel, const PanelResult& result,
                    Prefetch& prefetch) {
  const real* next = prefetch.data;
  for (const std::size_t end = first + tiles * Rows; first < end; first += Rows) {
    std::array<Simd, Rows> left;
    std::array<Simd, Rows> right;
    left.fill(Simd(real{0}));
    right.fill(Simd(real{0}));
    const real* right_factor = panel;
    const auto accumulate = [&](const real* factors) {
      __builtin_prefetch(next, 0, 2);
      next += prefetch.step;
      const Simd of_left = Simd::load_aligned(right_factor);
      const Simd of_right = Simd::load_aligned(right_factor + kLanes);
      right_factor += kPanel;
#pragma GCC unroll 12
      for (std::size_t i = 0; i < Rows; ++i) {
        const Simd factor(factors[i * a.row_stride]);
        left[i] = fma(factor, of_left, left[i]);
        right[i] = fma(factor, of_right, right[i]);
      }
    };
    const real* factors = a.data + first * a.row_stride;
    if constexpr (Segmented) {
      for (std::size_t k = 0; k < a.columns; k += kPanel, factors += segment_step) {
#pragma GCC unroll 4
        for (std::size_t i = 0; i < kPanel; ++i) accumulate(factors + i);
      }
    } else {
      for (std::size_t k = 0; k < a.columns; ++k, factors += a.column_stride) accumulate(factors);
    }
    real* const to = result.data + first * result.stride;
    if (result.columns == kPanel) {
      for (std::size_t i = 0; i < Rows; ++i) put(left[i], right[i], result, to + i * result.stride);
    } else {
      for (std::size_t i = 0; i < Rows; ++i)
        put_part(left[i], right[i], result, to + i * result.stride);
    }
  }
  prefetch.data = next;
}

// Structs are passed by reference: a copy would stall, because it reads in one load what the caller
// has just written in several stores.
using TilesFunction = void (*)(const MatrixView&, std::size_t, std::size_t, std::size_t,
                               const real*, const PanelResult&, Prefetch&);

template <bool Segmented, std::size_t... Rows>
constexpr auto tiles_functions(std::index_sequence<Rows...>) {
  return std::array<TilesFunction, sizeof...(Rows)>{multiply_tiles<Rows + 1, Segmented>...};
}
constexpr std::array kTiles{tiles_functions<false>(std::make_index_sequence<kTileRows>()),
                            tiles_functions<true>(std::make_index_sequence<kTileRows>())};

// Exchanges blocks of two rows: in each pair of blocks of Step lanes, the second block of a and the
// first block of b change places. Returns the new a if First, and the new b otherwise.
template <std::size_t Step, bool First, std::size_t... Lane>
Simd exchanged(const Simd& a, const Simd& b, std::index_sequence<Lane...>) {
  constexpr auto source = [](std::size_t lane) {
    const bool of_b = (lane & Step) != 0;
    return static_cast<int>(First ? (of_b ? kLanes + lane - Step : lane)
                                  : (of_b ? kLanes + lane : lane + Step));
  };
  return Simd(
      xsimd::batch<real>(__builtin_shufflevector(a.batch().data, b.batch().data, source(Lane)...)));
}

// Transposes a square of kLanes vectors: swaps the off-diagonal blocks in each group of 2 × 2
// blocks with sides of Step values, and then in groups of twice the size.
template <std::size_t Step = 1>
void transpose(std::array<Simd, kLanes>& square) {
  if constexpr (Step < kLanes) {
    constexpr auto lanes = std::make_index_sequence<kLanes>();
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kLanes; ++i) {
      if ((i & Step) != 0) continue;
      const Simd first = exchanged<Step, true>(square[i], square[i + Step], lanes);
      square[i + Step] = exchanged<Step, false>(square[i], square[i + Step], lanes);
      square[i] = first;
    }
    transpose<2 * Step>(square);
  }
}

// Packs a matrix with contiguous rows, row by row, because the CPU prefetches this order by itself.
void pack_rows(const MatrixView& matrix, real factor, real* panels) {
  const std::size_t rows = matrix.rows, columns = matrix.columns;
  if (columns == 0) return;
  const Simd factors(factor);
  const std::size_t whole = columns / kPanel * kPanel;
  for (std::size_t row = 0; row < rows; ++row) {
    const real* from = matrix.at(row, 0);
    real* to = panels + row * kPanel;
    for (std::size_t column = 0; column < whole; column += kPanel, to += rows * kPanel) {
      (Simd::load_unaligned(from + column) * factors).store_aligned(to);
      (Simd::load_unaligned(from + column + kLanes) * factors).store_aligned(to + kLanes);
    }
    if (whole == columns) continue;
    const std::size_t rest = columns - whole;
    const std::size_t first = std::min(kLanes, rest);
    (load_padded(from + whole, first) * factors).store_aligned(to);
    (load_padded(from + whole + first, rest - first) * factors).store_aligned(to + kLanes);
  }
}

// Packs the transpose of a matrix whose rows are contiguous.
void pack_transposed(const MatrixView& matrix, real factor, real* panels) {
  std::array<Simd, kLanes> block;
  for (std::size_t first = 0; first < panel_count(matrix.rows) * kPanel; first += kLanes)
    for (std::size_t column = 0; column < matrix.columns; column += kLanes) {
      const std::size_t count = std::min(kLanes, matrix.columns - column);
      for (std::size_t i = 0; i < kLanes; ++i) {
        const std::size_t row = first + i;
        __builtin_prefetch(matrix.data + (row + kLanes) * matrix.row_stride + column);
        block[i] =
            row < matrix.rows
                ? load_padded(matrix.data + row * matrix.row_stride + column, count) * Simd(factor)
                : Simd(real{0});
      }
      transpose(block);
      real* to = panels + first / kPanel * kPanel * matrix.columns + first % kPanel;
      for (std::size_t i = 0; i < count; ++i) block[i].store_aligned(to + (column + i) * kPanel);
    }
}

}  // namespace

void pack_panels(const MatrixView& matrix, real factor, real* panels) {
  if (matrix.is_transposed())
    pack_transposed(transposed(matrix), factor, panels);
  else
    pack_rows(matrix, factor, panels);
}

Tensor to_panels(const MatrixView& matrix) {
  Tensor panels = empty({panel_count(matrix.columns), matrix.rows, kPanel});
  pack_panels(matrix, 1, panels.data());
  return panels;
}

void multiply_panel(const MatrixView& a, const real* panel, const PanelResult& result,
                    Prefetch prefetch, std::size_t segment_step) {
  const std::size_t rows = a.rows;
  if (rows == 0) return;
  if (prefetch.data == nullptr) prefetch.data = panel;  // harmless: the panel is in the cache
  // Uses tiles of nearly equal size, because full tiles would leave a small, slow remainder.
  const std::size_t tiles = (rows + kTileRows - 1) / kTileRows;
  const std::size_t small = rows / tiles;
  const std::size_t larger = rows % tiles;  // the number of tiles with one more row
  const auto& multiply = kTiles[segment_step > 0 ? 1 : 0];
  if (larger > 0) multiply[small](a, segment_step, 0, larger, panel, result, prefetch);
  multiply[small - 1](a, segment_step, larger * (small + 1), tiles - larger, panel, result,
                      prefetch);
}

}  // namespace rowgrad::kernels
