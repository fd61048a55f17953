#include <array>
#include <numeric>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/vector_product.hpp>

namespace rowgrad::kernels {
namespace {

using blas::MatrixView;

// The largest number of multiplications. blas::gemm divides larger products among threads.
constexpr std::size_t kMaxWork = std::size_t{1} << 19;
constexpr std::size_t kTile = 4;  // running sums that stay in registers

// Loads the last kLanes of `count` values. Values that belong to whole vectors become 0.
Simd load_rest(const real* from, std::size_t count) {
  alignas(64) static constexpr auto kLane = [] {
    std::array<real, kLanes> lane{};
    std::iota(lane.begin(), lane.end(), real{0});
    return lane;
  }();
  const Mask is_rest = Simd::load_aligned(kLane.data()) >= Simd(kLanes - count % kLanes);
  return select(is_rest, Simd::load_unaligned(from + count - kLanes), 0);
}

// Calls step<N>(first) for steps of N · width values that fit in [0, count): N = kTile as often as
// possible, then N = 1.
void for_tiles(std::size_t count, std::size_t width, const auto& step) {
  std::size_t first = 0;
  for (; first + kTile * width <= count; first += kTile * width)
    step.template operator()<kTile>(first);
  for (; first + width <= count; first += width) step.template operator()<1>(first);
}

// Computes each row of the result as a sum of rows of b, which are contiguous and have at least
// kLanes values. The last vector of a row may overlap the one before it.
void add_rows(const MatrixView& a, const MatrixView& b, const blas::Matrix& result) {
  for (std::size_t row = 0; row < a.rows; ++row) {
    const auto add = [&, to = result.data + row * b.columns]<std::size_t N>(std::size_t column) {
      Simd sums[N];
      for (std::size_t k = 0; k < a.columns; ++k) {
        const Simd factor(*a.at(row, k));
        const real* const from = b.at(k, column);
        for (std::size_t i = 0; i < N; ++i) {
          const Simd x = Simd::load_unaligned(from + i * kLanes);
          sums[i] = k == 0 ? factor * x : fma(factor, x, sums[i]);
        }
      }
      for (std::size_t i = 0; i < N; ++i) sums[i].store_unaligned(to + column + i * kLanes);
    };
    for_tiles(b.columns, kLanes, add);
    if (b.columns % kLanes > 0) add.template operator()<1>(b.columns - kLanes);
  }
}

// Computes each value of one row as a dot product of `a` and a column of b, both of which are
// contiguous and have at least kLanes values.
void dot_products(const real* a, const MatrixView& b, real* result) {
  for_tiles(b.columns, 1, [&]<std::size_t N>(std::size_t first) {
    Simd sums[N];
    for (Simd& sum : sums) sum = Simd(0);
    const auto add = [&](const auto& load) {
      const Simd x = load(a);
      for (std::size_t i = 0; i < N; ++i) sums[i] = fma(x, load(b.at(0, first + i)), sums[i]);
    };
    for (std::size_t at = 0; at + kLanes <= b.rows; at += kLanes)
      add([at](const real* from) { return Simd::load_unaligned(from + at); });
    if (b.rows % kLanes > 0)
      add([count = b.rows](const real* from) { return load_rest(from, count); });
    for (std::size_t i = 0; i < N; ++i) result[first + i] = lanes::sum(sums[i]);
  });
}

}  // namespace

bool is_vector_product(const MatrixView& a, const MatrixView& b) {
  if (b.columns == 1 && a.rows != 1) return is_vector_product(transposed(b), transposed(a));
  const std::size_t inner = a.columns;
  if (inner == 0 || (a.rows != 1 && inner != 1) || a.rows * inner * b.columns > kMaxWork)
    return false;
  return (b.column_stride == 1 && b.columns >= kLanes) ||
         (a.rows == 1 && a.column_stride == 1 && b.row_stride == 1 && inner >= kLanes);
}

void multiply_vector(const MatrixView& a, const MatrixView& b, const blas::Matrix& result) {
  if (b.columns == 1 && a.rows != 1)  // a vector and its transpose have the same layout
    return multiply_vector(transposed(b), transposed(a), {result.data, 1, result.rows});
  if (b.column_stride == 1 && b.columns >= kLanes)
    add_rows(a, b, result);
  else
    dot_products(a.data, b, result.data);
}

}  // namespace rowgrad::kernels
