#pragma once

// Products of a tall matrix and a small one, as in an output head. BLAS first copies the tall
// matrix into its own layout, which costs as much as a product with few rows. Here the tall matrix
// is read in place, and the small one is copied. A tile of the result stays in registers while the
// factors stream past (Goto & van de Geijn 2008, "Anatomy of High-Performance Matrix
// Multiplication"). Each element of a product is summed in the order of k, whatever the tile.

#include <cstddef>

#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad::kernels {

/// Columns per panel: two vectors.
constexpr std::size_t kPanel = 2 * kLanes;

/// Returns the number of panels for `columns` columns.
constexpr std::size_t panel_count(std::size_t columns) { return (columns + kPanel - 1) / kPanel; }

/// Rows of the largest tile: two vectors per row fill the registers that the factors leave free.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr std::size_t kTileRows = 12;
#else
constexpr std::size_t kTileRows = 6;
#endif

/// Writes factor · matrix as [panel_count(columns), rows, kPanel]: the columns split into
/// contiguous panels, the last one padded with zeros.
void pack_panels(const blas::MatrixView& matrix, real factor, real* panels);

/// Returns the panels that pack_panels() writes with factor 1.
Tensor to_panels(const blas::MatrixView& matrix);

/// The destination of a product: rows of up to kPanel values, `stride` apart.
struct PanelResult {
  real* data;
  std::size_t stride = kPanel;
  std::size_t columns = kPanel;
  bool add = false;  // true: adds to the rows instead of replacing them
};

/// Memory to prefetch for the next product: one address for each k of each tile.
struct Prefetch {
  const real* data = nullptr;
  std::size_t step = 0;
};

/// Computes result[i][j] = Σ a(i, k) · panel[k][j] on the calling thread. `a` may have any strides.
/// Unless segment_step is 0, a's columns lie in segments of kPanel contiguous values,
/// `segment_step` values apart.
void multiply_panel(const blas::MatrixView& a, const real* panel, const PanelResult& result,
                    Prefetch prefetch = {}, std::size_t segment_step = 0);

}  // namespace rowgrad::kernels
