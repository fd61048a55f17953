#include "tests/test.hpp"
#include <rowgrad/core/kernels/simd.hpp>
#include <rowgrad/core/kernels/vector_product.hpp>

namespace rowgrad::kernels {
namespace {

constexpr std::size_t kLengths[] = {1, 2, 3, 6, 7, 9, 17, 33, 100, 130};

// Returns the sizes [rows, inner, columns] of vectors times matrices, matrices times vectors, and
// outer products.
std::vector<std::array<std::size_t, 3>> sizes() {
  std::vector<std::array<std::size_t, 3>> all;
  for (const std::size_t m : kLengths)
    for (const std::size_t n : kLengths) {
      all.push_back({1, m, n});
      all.push_back({m, n, 1});
      all.push_back({m, 1, n});
    }
  return all;
}

TEST(VectorProduct, AgreesWithLoopsInDouble) {
  std::map<std::string, std::size_t> computed;  // products with one size of 1, by kind
  for (const auto& [rows, inner, columns] : sizes())
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true}) {
        const Tensor of_a = irregular({rows, inner}, 1), of_b = irregular({inner, columns}, 2);
        const auto factor = [](const Tensor& x, std::size_t m, std::size_t n, bool transposed) {
          return transposed ? blas::transposed({x.data(), n, m}) : blas::MatrixView{x.data(), m, n};
        };
        const blas::MatrixView a = factor(of_a, rows, inner, a_transposed);
        const blas::MatrixView b = factor(of_b, inner, columns, b_transposed);
        if (!is_vector_product(a, b)) continue;
        if ((rows == 1) + (inner == 1) + (columns == 1) == 1)
          ++computed[concat(rows == 1    ? "vector times matrix"
                            : inner == 1 ? "outer product"
                                         : "matrix times vector",
                            ", transposed: ", a_transposed, b_transposed)];
        Tensor result = full({rows, columns}, kNaN);
        multiply_vector(a, b, {result.data(), rows, columns});
        const auto expected = [&, terms = inner](const Index& at) {
          double total = 0;
          for (std::size_t k = 0; k < terms; ++k)
            total += static_cast<double>(*a.at(at[0], k)) * *b.at(k, at[1]);
          return total;
        };
        const double n = static_cast<double>(inner);  // error bound as in gemm_test.cpp
        expect_entries(
            result, {rows, columns}, expected,
            [n](auto&, double) { return n * (n + 1) * kEpsilon; },
            concat("[", rows, ", ", inner, ", ", columns, "], ", a_transposed, b_transposed));
      }
  // One of the two sizes that are not 1 is arbitrary. The other is the length of rows or dot
  // products, and must fill a vector.
  const auto sides = [](std::size_t least) {
    return static_cast<std::size_t>(std::count_if(std::begin(kLengths), std::end(kLengths),
                                                  [=](std::size_t n) { return n >= least; }));
  };
  EXPECT_EQ(computed.size(), 3 * 4U);
  for (const auto& [kind, count] : computed)
    EXPECT_EQ(count, sides(2) * sides(std::max<std::size_t>(2, kLanes))) << kind;
}

TEST(VectorProduct, CountsEachTermOnceAndPropagatesInfinity) {
  const Tensor ones = full({130}, 1);
  for (const std::size_t length : kLengths) {
    const blas::MatrixView a{ones.data(), 1, length};
    Tensor column = full({length}, 1);
    column.data()[0] = kInfinity;
    const blas::MatrixView b{column.data(), length, 1};
    if (!is_vector_product(a, b)) continue;
    real result = 0;
    multiply_vector(a, b, {&result, 1, 1});
    EXPECT_EQ(result, kInfinity) << length;
    multiply_vector(a, {ones.data(), length, 1}, {&result, 1, 1});
    EXPECT_EQ(result, static_cast<real>(length));
  }
}

// Compares the values and gradients of products of stacked matrices. The last product broadcasts.
TEST(VectorProduct, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const auto& [of_a, of_b] :
       std::vector<std::pair<Shape, Shape>>{{{64, 6, 100}, {64, 100, 1}},
                                            {{64, 1, 100}, {64, 100, 6}},
                                            {{4, 1, 6, 1}, {9, 1, 33}}}) {
    std::vector<Tensor> first;
    for (const int threads : {1, 2, 3}) {
      const Threads scope(threads);
      Tape tape;
      const Variable a = tape.input(irregular(of_a, 1)), b = tape.input(irregular(of_b, 2));
      const Variable product = matmul(a, b);
      tape.backward(product, irregular(product.shape(), 3));
      const std::vector<Tensor> all{product.value(), tape.gradient(a).dense(),
                                    tape.gradient(b).dense()};
      if (threads == 1) first = all;
      EXPECT_EQ(all, first) << threads;
    }
  }
}

}  // namespace
}  // namespace rowgrad::kernels
