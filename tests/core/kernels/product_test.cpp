#include "tests/test.hpp"
#include <rowgrad/core/kernels/product.hpp>

namespace rowgrad::kernels {
namespace {

struct Sizes {
  std::size_t rows, inner, columns;
};

// Shapes that are read in place, shapes that BLAS multiplies, and some at the border.
constexpr Sizes kSizes[] = {{768, 128, 65}, {300, 33, 100}, {193, 256, 256}, {1000, 47, 70},
                            {300, 16, 40},  {191, 64, 64},  {300, 300, 300}, {3, 5, 7},
                            {33, 511, 65},  {90, 512, 40},  {300, 1100, 97}};

enum class Added { kNothing, kBias, kResult };

TEST(Product, IsThatOfBlas) {
  for (const auto [rows, inner, columns] : kSizes)
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true})
        for (const Added kind : {Added::kNothing, Added::kBias, Added::kResult}) {
          const Tensor of_a = irregular({rows * inner}, 1);
          const Tensor of_b = irregular({inner * columns}, 2);
          const Tensor added =
              irregular(kind == Added::kBias ? Shape{columns} : Shape{rows, columns}, 3);
          const auto factor = [](const Tensor& x, std::size_t m, std::size_t n, bool transposed) {
            return transposed ? blas::transposed({x.data(), n, m})
                              : blas::MatrixView{x.data(), m, n};
          };
          const blas::MatrixView a = factor(of_a, rows, inner, a_transposed);
          const blas::MatrixView b = factor(of_b, inner, columns, b_transposed);
          Tensor expected = zeros({rows, columns});
          for (std::size_t i = 0; kind != Added::kNothing && i < expected.size(); ++i)
            expected.data()[i] = added.data()[i % added.size()];
          Tensor result = kind == Added::kResult ? expected : full({rows, columns}, kNaN);
          blas::gemm(a, b, {expected.data(), rows, columns}, 1);
          product(a, b, {result.data(), rows, columns},
                  {.bias = kind == Added::kBias ? added.data() : nullptr,
                   .add = kind == Added::kResult});
          // As in gemm_test.cpp: the two may add in different orders.
          const double n = static_cast<double>(inner) + 2;
          expect_near(result, expected, n * (n + 1) * kEpsilon,
                      concat(rows, " x ", inner, " x ", columns));
        }
}

}  // namespace
}  // namespace rowgrad::kernels
