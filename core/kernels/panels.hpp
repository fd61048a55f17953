#pragma once

// Matrix products of a tall matrix with a few rows or columns, such as an output head has them.
// BLAS first copies the tall matrix into an order of its own, which for few rows costs as much as
// the product; here it is read where it stands, and the small one is copied. As in Goto & van de
// Geijn 2008, "Anatomy of High-Performance Matrix Multiplication", a tile of the result stays in
// registers while the factors stream past. Each number of a result is summed up in the order of k,
// whatever the tile it falls into, and then added to what was there: long sums are sums of sums,
// which rounds less.

#include <cstddef>

#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad::kernels {

/// Columns of a panel: two vectors.
constexpr std::size_t kPanel = 2 * kLanes;

/// How many panels hold that many columns.
constexpr std::size_t panel_count(std::size_t columns) { return (columns + kPanel - 1) / kPanel; }

/// Rows of the largest tile: with two vectors each they fill the registers, but for the factors.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr std::size_t kTileRows = 12;
#else
constexpr std::size_t kTileRows = 6;
#endif

/// matrix [rows, columns] → [panels, rows, kPanel]: the columns cut into contiguous panels, zeros
/// past the last one.
Tensor to_panels(const real* matrix, std::size_t rows, std::size_t columns);

/// The same for the transpose of a matrix [columns, rows].
Tensor transposed_to_panels(const real* matrix, std::size_t rows, std::size_t columns);

/// A left factor [rows, length] in any order: entry (i, k) is data[i · row + k · step]. If there
/// are several segments, each has kPanel entries of step 1, and the next begins `segment` numbers
/// after it.
struct LeftFactor {
  const real* data;
  std::size_t row;
  std::size_t step = 1;
  std::size_t length = kPanel;  // of a segment
  std::size_t segments = 1;
  std::size_t segment = 0;
};

/// Where the product goes: rows of up to kPanel numbers, `stride` apart.
struct PanelResult {
  real* data;
  std::size_t stride = kPanel;
  std::size_t columns = kPanel;
  bool add = false;  // to what is there
};

/// Memory to be requested meanwhile for what comes next: one place for each k of each tile.
struct Ahead {
  const real* data = nullptr;
  std::size_t step = 0;
};

/// result[i][j] = Σ a(i, k) · panel[k][j] for `rows` rows, on this thread.
void multiply_panel(const LeftFactor& a, std::size_t rows, const real* panel,
                    const PanelResult& result, Ahead ahead = {});

}  // namespace rowgrad::kernels
