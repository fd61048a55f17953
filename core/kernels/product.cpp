#include <algorithm>
#include <functional>

#include <rowgrad/core/kernels/panels.hpp>
#include <rowgrad/core/kernels/product.hpp>

namespace rowgrad::kernels {
namespace {

using blas::MatrixView;

constexpr std::size_t kMostNumbers = std::size_t{1}
                                     << 17;        // of b, or of the result if a is transposed
constexpr std::size_t kBlockRows = 4 * kTileRows;  // of a, multiplied with one panel of b at a time
constexpr std::size_t kFewestRows = 2 * kBlockRows;
constexpr std::size_t kFewestInner = kPanel;
constexpr std::size_t kGroupRows = 22 * kTileRows;  // of a, if it is transposed; no power of two,
                                                    // so that columns spread over the cache
constexpr std::size_t kBlockInner = 256;            // a panel of so many rows stays in the L1 cache

// Whether this is faster than BLAS, as measured.
bool fits(const MatrixView& a, const MatrixView& b) {
  if (a.columns < kFewestInner || b.columns < kPanel) return false;
  if (a.is_transposed())
    return !b.is_transposed() && a.rows >= kPanel && a.rows * b.columns <= kMostNumbers;
  return a.rows >= kFewestRows && b.rows * b.columns <= kMostNumbers;
}

// The columns of x from `first` on, at most `count`.
MatrixView columns_of(const MatrixView& x, std::size_t first, std::size_t count) {
  return {x.at(0, first), x.rows, std::min(count, x.columns - first), x.row_step, x.column_step};
}

// a · b, plus what the options say, where b stays in the L2 cache: b is copied, a read in place.
void multiply_rows(const MatrixView& a, const MatrixView& b, const blas::Matrix& result,
                   const ProductOptions& options) {
  const std::size_t inner = a.columns;
  const std::size_t columns = b.columns;
  const std::size_t count = panel_count(columns);
  const std::size_t blocks = (a.rows + kBlockRows - 1) / kBlockRows;
  Tensor panels = empty({count, inner, kPanel});
  parallel_for_each(count, 4 * inner * kPanel, [&](std::size_t panel) {
    pack_panels(columns_of(b, panel * kPanel, kPanel), 1, panels.data() + panel * kPanel * inner);
  });
  parallel_for_each(blocks * count, kBlockRows * inner, [&](std::size_t item) {
    const std::size_t first = item / count * kBlockRows;
    const std::size_t column = item % count * kPanel;
    multiply_panel({a.at(first, 0), std::min(kBlockRows, a.rows - first), inner, a.row_step},
                   panels.data() + column * inner,
                   {.data = result.data + first * columns + column,
                    .stride = columns,
                    .columns = std::min(kPanel, columns - column),
                    .add = options.add,
                    .bias = options.bias != nullptr ? options.bias + column : nullptr});
  });
}

// The same for two tall factors, of which a is stored as [inner, rows]: a gradient of weights.
// Blocks of both are copied, if they do not lie side by side already.
// Each half of the inner length is summed by itself: with two threads, each reads what it has
// usually written itself, and what is therefore in its cache.
void multiply_tall(const MatrixView& a, const MatrixView& b, const blas::Matrix& result,
                   const ProductOptions& options) {
  const std::size_t columns = b.columns;
  const std::size_t count = panel_count(columns);
  const std::size_t groups = (a.rows + kGroupRows - 1) / kGroupRows;
  const std::size_t halves = a.columns < 2 * kBlockInner ? 1 : 2;
  const std::size_t blocks = (a.columns + halves * kBlockInner - 1) / (halves * kBlockInner);
  Tensor second = empty({halves > 1 ? a.rows : 0, columns});
  const std::size_t items = groups * count;
  const std::size_t grain = row_grain(kGroupRows * kBlockInner);
  const std::size_t ranges = range_count(halves * items, grain);
  const std::size_t copy_size = groups > 1 ? kBlockInner * kGroupRows : 0;
  Tensor copies = empty({ranges, copy_size});
  Tensor panels_of_all = empty({ranges, count, kBlockInner, kPanel});
  const auto multiply = [&](std::size_t half, std::size_t group, std::size_t begin, std::size_t end,
                            std::size_t range) {
    const std::size_t first = a.rows * group / groups;
    const std::size_t rows = a.rows * (group + 1) / groups - first;
    real* const to = (half == 0 ? result.data : second.data()) + first * columns;
    real* const copy = copies.data() + range * copy_size;
    real* const panels = panels_of_all.data() + range * count * kBlockInner * kPanel;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t piece = half * blocks + block;
      const std::size_t from = a.columns * piece / (halves * blocks);
      const std::size_t length = a.columns * (piece + 1) / (halves * blocks) - from;
      MatrixView factor{a.at(first, from), rows, length, 1, a.column_step};
      if (groups > 1) {
        for (std::size_t k = 0; k < length; ++k)
          std::copy_n(a.at(first, from + k), rows, copy + k * kGroupRows);
        factor = {copy, rows, length, 1, kGroupRows};
      }
      const std::size_t last = std::min(end * kPanel, columns);
      pack_panels({b.at(from, begin * kPanel), length, last - begin * kPanel, b.row_step}, 1,
                  panels);
      for (std::size_t item = begin; item < end; ++item) {
        const std::size_t column = item * kPanel;
        multiply_panel(
            factor, panels + (item - begin) * length * kPanel,
            {.data = to + column,
             .stride = columns,
             .columns = std::min(kPanel, columns - column),
             .add = block > 0 || (half == 0 && options.add),
             .bias = piece == 0 && options.bias != nullptr ? options.bias + column : nullptr});
      }
    }
  };
  parallel_for(halves * items, grain, [&](std::size_t begin, std::size_t end, std::size_t range) {
    for (; begin < end; begin = (begin / count + 1) * count) {
      const std::size_t group = begin / count;
      multiply(group / groups, group % groups, begin % count, std::min(end - group * count, count),
               range);
    }
  });
  map_into(second.size(), result.data, std::plus<>(), result.data, second.data());
}

void multiply_with_blas(const MatrixView& a, const MatrixView& b, const blas::Matrix& result,
                        const ProductOptions& options) {
  if (options.bias != nullptr)
    parallel_for_each(result.rows, result.columns, [&](std::size_t row) {
      std::copy_n(options.bias, result.columns, result.data + row * result.columns);
    });
  blas::gemm(a, b, result, options.bias != nullptr || options.add ? 1 : 0);
}

}  // namespace

void product(const MatrixView& a, const MatrixView& b, const blas::Matrix& result,
             const ProductOptions& options) {
  const auto multiply = !fits(a, b)         ? multiply_with_blas
                        : a.is_transposed() ? multiply_tall
                                            : multiply_rows;
  multiply(a, b, result, options);
}

}  // namespace rowgrad::kernels
