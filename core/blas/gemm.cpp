#include <algorithm>
#include <array>
#include <limits>

// Included first: it defines HAVE_CBLAS, which xblas.hpp tests before including it since
// xtensor-blas 0.21. Without BLAS, every product would silently be a plain loop.
#include <xtensor-blas/xblas_config.hpp>
#ifndef HAVE_CBLAS
#error "xtensor-blas is configured to do without BLAS; rowgrad needs OpenBLAS"
#endif
#include <xtensor-blas/xblas.hpp>

#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/blas/openblas.hpp>

namespace rowgrad::blas {
namespace {

template <class Number>
auto adapt(Number* data, std::size_t rows, std::size_t columns) {
  return xt::adapt(data, rows * columns, xt::no_ownership(),
                   std::array<std::size_t, 2>{rows, columns});
}

auto adapt(const ConstMatrix& factor) {
  return factor.transposed ? adapt(factor.data, factor.columns, factor.rows)
                           : adapt(factor.data, factor.rows, factor.columns);
}

}  // namespace

void gemm(const ConstMatrix& a, const ConstMatrix& b, const Matrix& result, real beta) {
  const auto [rows, inner, columns] = std::array{a.rows, a.columns, b.columns};
  check_argument(inner == b.rows && rows == result.rows && columns == result.columns, "gemm: [",
                 rows, ", ", inner, "] times [", b.rows, ", ", columns, "] does not make [",
                 result.rows, ", ", result.columns, "]");
  constexpr auto kLargest = static_cast<std::size_t>(std::numeric_limits<int>::max());
  check_argument(std::max({rows, inner, columns}) <= kLargest, "gemm: a side of [", rows, ", ",
                 inner, "] times [", inner, ", ", columns, "] exceeds BLAS's limit of ", kLargest);
  if (rows == 0 || columns == 0) return;
  if (inner == 0) {
    std::transform(result.data, result.data + rows * columns, result.data,
                   [beta](real x) { return beta == 0 ? 0 : beta * x; });
    return;
  }
  prepare();
  if (rows == 1) {  // gemm would copy all of b first
    auto row = xt::adapt(result.data, columns, xt::no_ownership(), std::array{columns});
    const auto vector = xt::adapt(a.data, inner, xt::no_ownership(), std::array{inner});
    xt::blas::gemv(adapt(b), vector, row, !b.transposed, real{1}, beta);
    return;
  }
  auto target = adapt(result.data, rows, columns);
  xt::blas::gemm(adapt(a), adapt(b), target, a.transposed, b.transposed, real{1}, beta);
}

}  // namespace rowgrad::blas
