#include <algorithm>
#include <array>
#include <utility>

#include <rowgrad/core/kernels/panels.hpp>

namespace rowgrad::kernels {
namespace {

// `Rows` rows of the result. `Segmented` tells at compile time which of a left factor's two forms
// it has: a loop of known length has no end to be mispredicted.
template <std::size_t Rows, bool Segmented>
void multiply_tile(const LeftFactor& a, const real* panel, const PanelResult& result,
                   Ahead& ahead) {
  std::array<Simd, Rows> left;
  std::array<Simd, Rows> right;
  left.fill(Simd(real{0}));
  right.fill(Simd(real{0}));
  const real* next = ahead.data;
  const auto accumulate = [&](const real* factors) {
    __builtin_prefetch(next, 0, 2);
    next += ahead.step;
    const Simd first = Simd::load_aligned(panel);
    const Simd second = Simd::load_aligned(panel + kLanes);
    panel += kPanel;
#pragma GCC unroll 12
    for (std::size_t i = 0; i < Rows; ++i) {
      const Simd factor(factors[i * a.row]);
      left[i] = xsimd::fma(factor, first, left[i]);
      right[i] = xsimd::fma(factor, second, right[i]);
    }
  };
  const real* factors = a.data;
  if constexpr (Segmented) {
    for (std::size_t segment = 0; segment < a.segments; ++segment, factors += a.segment) {
#pragma GCC unroll 16
      for (std::size_t k = 0; k < kPanel; ++k) accumulate(factors + k);
    }
  } else {
    for (std::size_t k = 0; k < a.length; ++k, factors += a.step) accumulate(factors);
  }
  ahead.data = next;
  for (std::size_t i = 0; i < Rows; ++i) {
    real* to = result.data + i * result.stride;
    if (result.add) {
      left[i] += Simd::load_unaligned(to);
      right[i] += Simd::load_unaligned(to + kLanes);
    }
    left[i].store_unaligned(to);
    right[i].store_unaligned(to + kLanes);
  }
}

using TileFunction = void (*)(const LeftFactor&, const real*, const PanelResult&, Ahead&);

template <bool Segmented, std::size_t... Rows>
constexpr auto tile_functions(std::index_sequence<Rows...>) {
  return std::array<TileFunction, sizeof...(Rows)>{multiply_tile<Rows + 1, Segmented>...};
}
constexpr std::array kTiles{tile_functions<false>(std::make_index_sequence<kTileRows>()),
                            tile_functions<true>(std::make_index_sequence<kTileRows>())};

// A tile whose panel has columns past the result's last one.
void multiply_cut_tile(TileFunction multiply, const LeftFactor& a, std::size_t rows,
                       const real* panel, const PanelResult& result, Ahead& ahead) {
  alignas(64) std::array<real, kTileRows * kPanel> whole;
  multiply(a, panel, {whole.data()}, ahead);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < result.columns; ++j) {
      real& to = result.data[i * result.stride + j];
      to = whole[i * kPanel + j] + (result.add ? to : real{0});
    }
}

}  // namespace

Tensor to_panels(const real* matrix, std::size_t rows, std::size_t columns) {
  Tensor panels = empty({panel_count(columns), rows, kPanel});
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t first = 0; first < columns; first += kPanel) {
      const std::size_t count = std::min(kPanel, columns - first);
      real* to = panels.data() + first * rows + row * kPanel;
      std::fill(std::copy_n(matrix + row * columns + first, count, to), to + kPanel, real{0});
    }
  return panels;
}

Tensor transposed_to_panels(const real* matrix, std::size_t rows, std::size_t columns) {
  Tensor panels = empty({panel_count(columns), rows, kPanel});
  for (std::size_t column = 0; column < panel_count(columns) * kPanel; ++column) {
    real* to = panels.data() + column / kPanel * kPanel * rows + column % kPanel;
    for (std::size_t row = 0; row < rows; ++row)
      to[row * kPanel] = column < columns ? matrix[column * rows + row] : real{0};
  }
  return panels;
}

void multiply_panel(const LeftFactor& a, std::size_t rows, const real* panel,
                    const PanelResult& result, Ahead ahead) {
  if (ahead.data == nullptr) ahead.data = panel;  // is there anyway
  // Tiles of nearly one size, rather than full ones and a small rest that would be slow.
  const std::size_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const std::size_t begin = rows * tile / tiles;
    const std::size_t count = rows * (tile + 1) / tiles - begin;
    LeftFactor part = a;
    part.data += begin * a.row;
    PanelResult to = result;
    to.data += begin * result.stride;
    const TileFunction multiply = kTiles[a.segments > 1 ? 1 : 0][count - 1];
    if (result.columns == kPanel) {
      multiply(part, panel, to, ahead);
    } else {
      multiply_cut_tile(multiply, part, count, panel, to, ahead);
    }
  }
}

}  // namespace rowgrad::kernels
