#include <algorithm>

#include <rowgrad/core/kernels/panels.hpp>
#include <rowgrad/core/kernels/product.hpp>

namespace rowgrad::kernels {
namespace {

constexpr std::size_t kBlockRows = 4 * kTileRows;  // of a, multiplied with one panel of b at a time
constexpr std::size_t kFewestRows = 2 * kBlockRows;
constexpr std::size_t kFewestInner = kPanel;
constexpr std::size_t kMostNumbers = std::size_t{1} << 17;  // of b
constexpr std::size_t kMostColumns = 128;                   // of b, if a is transposed

// Whether this is faster than BLAS, as measured.
bool fits(const blas::ConstMatrix& a, const blas::ConstMatrix& b) {
  return a.rows >= kFewestRows && a.columns >= kFewestInner && b.columns >= kPanel &&
         b.rows * b.columns <= kMostNumbers && (!a.transposed || b.columns <= kMostColumns);
}

// Columns of b as panels, from `panel` on and up to `end`.
void pack(const blas::ConstMatrix& b, std::size_t panel, std::size_t end, real* panels) {
  for (; panel < end; ++panel) {
    const std::size_t column = panel * kPanel;
    const std::size_t columns = std::min(kPanel, b.columns - column);
    real* to = panels + column * b.rows;
    if (b.transposed) {
      pack_transposed_panels({b.data + column * b.rows, columns, b.rows, b.rows}, 1, to);
    } else {
      pack_panels({b.data + column, b.rows, columns, b.columns}, 1, to);
    }
  }
}

}  // namespace

void product(const blas::ConstMatrix& a, const blas::ConstMatrix& b, const blas::Matrix& result,
             const real* bias) {
  if (!fits(a, b)) {
    if (bias != nullptr)
      parallel_for(result.rows, row_grain(result.columns), [&](std::size_t begin, std::size_t end) {
        for (std::size_t row = begin; row < end; ++row)
          std::copy_n(bias, result.columns, result.data + row * result.columns);
      });
    blas::gemm(a, b, result, bias != nullptr ? 1 : 0);
    return;
  }
  const std::size_t inner = a.columns;
  const std::size_t columns = b.columns;
  Tensor panels = empty({panel_count(columns), inner, kPanel});
  parallel_for(panel_count(columns), row_grain(inner * kPanel),
               [&](std::size_t begin, std::size_t end) { pack(b, begin, end, panels.data()); });
  const std::size_t blocks = (a.rows + kBlockRows - 1) / kBlockRows;
  const std::size_t count = panel_count(columns);
  parallel_for(
      blocks * count, row_grain(kBlockRows * inner), [&](std::size_t begin, std::size_t end) {
        Tensor copy = empty({a.transposed ? inner * kBlockRows : 0});
        for (std::size_t item = begin; item < end; ++item) {
          const std::size_t first = item / count * kBlockRows;
          const std::size_t column = item % count * kPanel;
          const std::size_t rows = std::min(kBlockRows, a.rows - first);
          LeftFactor factor{a.data + first * inner, inner, 1, inner};
          if (a.transposed) {
            if (item == begin || column == 0)
              for (std::size_t k = 0; k < inner; ++k)
                std::copy_n(a.data + k * a.rows + first, rows, copy.data() + k * kBlockRows);
            factor = {copy.data(), 1, kBlockRows, inner};
          }
          const PanelResult to{.data = result.data + first * columns + column,
                               .stride = columns,
                               .columns = std::min(kPanel, columns - column),
                               .add = bias != nullptr};
          if (bias != nullptr)
            for (std::size_t row = 0; row < rows; ++row)
              std::copy_n(bias + column, to.columns, to.data + row * columns);
          multiply_panel(factor, rows, panels.data() + column * inner, to);
        }
      });
}

}  // namespace rowgrad::kernels
