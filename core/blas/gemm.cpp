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

}  // namespace

void gemm(const ConstMatrix& a, const ConstMatrix& b, const Matrix& result, real beta) {
  const bool a_transposed = a.transpose == Transpose::kYes;
  const bool b_transposed = b.transpose == Transpose::kYes;
  const std::size_t rows = a_transposed ? a.columns : a.rows;
  const std::size_t inner = a_transposed ? a.rows : a.columns;
  const std::size_t b_inner = b_transposed ? b.columns : b.rows;
  const std::size_t columns = b_transposed ? b.rows : b.columns;
  check_argument(inner == b_inner && rows == result.rows && columns == result.columns, "gemm: [",
                 rows, ", ", inner, "] times [", b_inner, ", ", columns, "] does not make [",
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
  const auto left = adapt(a.data, a.rows, a.columns);
  const auto right = adapt(b.data, b.rows, b.columns);
  auto target = adapt(result.data, rows, columns);
  xt::blas::gemm(left, right, target, a_transposed, b_transposed, real{1}, beta);
}

}  // namespace rowgrad::blas
