#pragma once

// Products of a tall matrix with a few rows or columns, as in an output head. BLAS first copies the
// tall matrix into its own layout, which for few rows costs as much as the product. Here it is read
// in place, and the small matrix is copied. As in Goto & van de Geijn 2008, "Anatomy of
// High-Performance Matrix Multiplication", a tile of the result stays in registers while the
// factors stream past. Each value of a product is summed in the order of k, whichever tile it is
// in, and then added to the result: long sums are sums of sums, which reduces rounding.

#include <cstddef>

#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad::kernels {

/// Columns per panel: two vectors.
constexpr std::size_t kPanel = 2 * kLanes;

/// The number of panels for `columns` columns.
constexpr std::size_t panel_count(std::size_t columns) { return (columns + kPanel - 1) / kPanel; }

/// Rows of the largest tile: with two vectors per row, it fills the registers left by the factors.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr std::size_t kTileRows = 12;
#else
constexpr std::size_t kTileRows = 6;
#endif

/// Writes factor · matrix as [panel_count(columns), rows, kPanel]: the columns split into
/// contiguous panels, the last one padded with zeros.
void pack_panels(const blas::MatrixView& matrix, real factor, real* panels);
Tensor to_panels(const blas::MatrixView& matrix);  // with a factor of 1, as a tensor

/// Where the product goes: rows of up to kPanel values, `stride` apart.
struct PanelResult {
  real* data;
  std::size_t stride = kPanel;
  std::size_t columns = kPanel;
  bool add = false;  // to what is there, instead of replacing it
};

/// Memory to prefetch for the next product: one address for each k of each tile.
struct Prefetch {
  const real* data = nullptr;
  std::size_t step = 0;
};

/// result[i][j] = Σ a(i, k) · panel[k][j], on this thread. `a` may have any steps; or it lies in
/// segments of kPanel contiguous columns, each `segment_step` numbers after the one before it.
void multiply_panel(const blas::MatrixView& a, const real* panel, const PanelResult& result,
                    Prefetch prefetch = {}, std::size_t segment_step = 0);

}  // namespace rowgrad::kernels
