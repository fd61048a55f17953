#include <algorithm>
#include <functional>

#include <rowgrad/core/kernels/panels.hpp>
#include <rowgrad/core/kernels/product.hpp>

namespace rowgrad::kernels {
namespace {

using blas::MatrixView;

// The most numbers of b, or of the result if a is transposed, that stay in the L2 cache.
constexpr std::size_t kMostNumbers = std::size_t{1} << 17;
// The rows of a that are multiplied with one panel of b at a time.
constexpr std::size_t kBlockRows = 4 * kTileRows;
constexpr std::size_t kFewestRows = 2 * kBlockRows;
constexpr std::size_t kFewestInner = kPanel;
// The most rows of a transposed a that are multiplied at a time; no power of two, so that columns
// spread over the cache.
constexpr std::size_t kMostTallRows = 22 * kTileRows;
constexpr std::size_t kBlockInner = 256;  // a panel of so many rows stays in the L1 cache

// Whether this is faster than BLAS, as measured.
bool fits(const MatrixView& a, const MatrixView& b, const ProductOptions& options) {
  if (a.columns < kFewestInner || b.columns < kPanel) return false;
  if (a.is_transposed())
    return !b.is_transposed() && options.bias == nullptr && a.rows >= kPanel &&
           a.rows * b.columns <= kMostNumbers;
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

// Part i of `count` nearly equal ones of [0, whole).
struct Part {
  std::size_t first;
  std::size_t size;

  Part(std::size_t whole, std::size_t i, std::size_t count)
      : first(whole * i / count), size(whole * (i + 1) / count - first) {}
};

// a · b, or added to the result, for two tall factors, of which a is stored as [inner, rows]: a
// gradient of weights. Blocks of both are copied, if they do not lie side by side already.
//
// Each half of the inner length is summed by itself: with two threads, each reads what it has
// usually written itself, and what is therefore in its cache.
void multiply_tall(const MatrixView& a, const MatrixView& b, const blas::Matrix& result,
                   const ProductOptions& options) {
  const std::size_t columns = b.columns;
  const std::size_t panels = panel_count(columns);
  const std::size_t row_blocks = (a.rows + kMostTallRows - 1) / kMostTallRows;
  const std::size_t halves = a.columns < 2 * kBlockInner ? 1 : 2;
  const std::size_t inner_blocks = (a.columns + halves * kBlockInner - 1) / (halves * kBlockInner);
  Tensor second_half = empty({halves > 1 ? a.rows : 0, columns});
  const std::size_t items = halves * row_blocks * panels;
  const std::size_t grain = row_grain(kMostTallRows * kBlockInner);
  const std::size_t ranges = range_count(items, grain);
  const std::size_t copy_size = row_blocks > 1 ? kBlockInner * kMostTallRows : 0;
  Tensor copies_of_a = empty({ranges, copy_size});
  Tensor panels_of_b = empty({ranges, panels, kBlockInner, kPanel});
  // Computes the panels [begin, end) of a block of rows.
  const auto multiply = [&](std::size_t half, const Part& rows, std::size_t begin, std::size_t end,
                            std::size_t range) {
    real* const to = (half == 0 ? result.data : second_half.data()) + rows.first * columns;
    real* const copy = copies_of_a.data() + range * copy_size;
    real* const right = panels_of_b.data() + range * panels * kBlockInner * kPanel;
    for (std::size_t block = 0; block < inner_blocks; ++block) {
      const Part inner(a.columns, half * inner_blocks + block, halves * inner_blocks);
      MatrixView left{a.at(rows.first, inner.first), rows.size, inner.size, 1, a.column_step};
      if (row_blocks > 1) {
        for (std::size_t k = 0; k < inner.size; ++k)
          std::copy_n(left.at(0, k), rows.size, copy + k * kMostTallRows);
        left = {copy, rows.size, inner.size, 1, kMostTallRows};
      }
      const std::size_t end_column = std::min(end * kPanel, columns);
      pack_panels(
          {b.at(inner.first, begin * kPanel), inner.size, end_column - begin * kPanel, b.row_step},
          1, right);
      for (std::size_t panel = begin; panel < end; ++panel)
        multiply_panel(left, right + (panel - begin) * inner.size * kPanel,
                       {.data = to + panel * kPanel,
                        .stride = columns,
                        .columns = std::min(kPanel, columns - panel * kPanel),
                        .add = block > 0 || (half == 0 && options.add)});
    }
  };
  parallel_for(items, grain, [&](std::size_t begin, std::size_t end, std::size_t range) {
    for (std::size_t next; begin < end; begin = next) {
      const std::size_t block = begin / panels;
      next = std::min(end, (block + 1) * panels);
      multiply(block / row_blocks, Part(a.rows, block % row_blocks, row_blocks), begin % panels,
               next - block * panels, range);
    }
  });
  map_into(second_half.size(), result.data, std::plus<>(), result.data, second_half.data());
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
  const auto multiply = !fits(a, b, options) ? multiply_with_blas
                        : a.is_transposed()  ? multiply_tall
                                             : multiply_rows;
  multiply(a, b, result, options);
}

}  // namespace rowgrad::kernels
