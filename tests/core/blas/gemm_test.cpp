#include "tests/test.hpp"

namespace rowgrad::blas {
namespace {

struct Sizes {
  std::size_t rows, inner, columns;
};

// A factor [rows, columns] of a product, optionally stored transposed.
struct Factor {
  Tensor stored;
  MatrixView matrix;

  Factor(std::size_t rows, std::size_t columns, bool transpose, int seed)
      : stored(transpose ? irregular({columns, rows}, seed) : irregular({rows, columns}, seed)),
        matrix(transpose ? transposed({stored.data(), columns, rows})
                         : MatrixView{stored.data(), rows, columns}) {}

  double operator()(std::size_t row, std::size_t column) const { return *matrix.at(row, column); }
};

// Compares result = a · b + beta · before with loops in double.
void expect_product(const Sizes& size, bool a_transpose, bool b_transpose, real beta) {
  const auto [rows, inner, columns] = size;
  const Factor a(rows, inner, a_transpose, 1);
  const Factor b(inner, columns, b_transpose, 2);
  // With beta = 0, the previous values must not be read.
  const Tensor before = beta == 0 ? full({rows, columns}, kNaN) : irregular({rows, columns}, 3);
  Tensor result = before;
  gemm(a.matrix, b.matrix, {result.data(), rows, columns}, beta);
  auto product = [&, count = inner](const Index& at) {
    double total = beta == 0 ? 0 : static_cast<double>(beta) * before(at[0], at[1]);
    for (std::size_t k = 0; k < count; ++k) total += a(at[0], k) * b(k, at[1]);
    return total;
  };
  // Rounding error: at most half a unit for each of `inner` products and sums of values below 1, in
  // any order, and two more for beta · before (Higham 2002, section 3.1). The bound is doubled,
  // because in the double build, the reference is rounded as well.
  const double n = static_cast<double>(inner) + 2;
  expect_entries(
      result, {rows, columns}, product, [n](auto&, double) { return n * (n + 1) * kEpsilon; },
      concat("[", rows, ", ", inner, ", ", columns, "], a ", a_transpose ? "transposed" : "plain",
             ", b ", b_transpose ? "transposed" : "plain", ", beta ", beta));
}

TEST(Gemm, MultipliesAllTransposesBetasAndSizes) {
  const std::vector<Sizes> sizes{{1, 1, 1},   {1, 3, 1},    {3, 1, 1},      {1, 1, 3}, {2, 3, 4},
                                 {4, 3, 2},   {1, 5, 7},    {7, 5, 1},      {5, 1, 7}, {8, 8, 8},
                                 {17, 33, 9}, {64, 70, 65}, {33, 1001, 65}, {0, 3, 2}, {2, 0, 3},
                                 {3, 2, 0},   {0, 0, 0}};
  for (const Sizes& size : sizes)
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        for (const real beta : {real{0}, real{1}, real{0.5}}) expect_product(size, a, b, beta);
}

// These sizes make gemm() split rows, columns, a single row, and the inner dimension.
TEST(Gemm, AgreesForAnyNumberOfThreads) {
  for (const auto& [rows, inner, columns] : std::vector<Sizes>{
           {30, 70, 5001}, {5001, 70, 30}, {700, 300, 500}, {1, 300, 9001}, {400, 901, 30}})
    for (const bool transpose : {false, true}) {
      const Factor a(rows, inner, transpose, 1), b(inner, columns, transpose, 2);
      Tensor expected;
      for (const int threads : {1, 2, 3}) {
        const Threads scope(threads);
        Tensor result = empty({rows, columns});
        gemm(a.matrix, b.matrix, {result.data(), rows, columns});
        if (threads == 1) expected = result;
        // At the end of a range, the kernel may sum in another order: see the bound above.
        expect_near(result, expected, 2 * static_cast<double>(inner * (inner + 1)) * kEpsilon,
                    concat(rows, " × ", inner, " × ", columns, " on ", threads));
      }
    }
}

TEST(Gemm, PropagatesNaNFromFactors) {
  const Tensor a = full({2, 2}, kNaN);
  const Tensor b = zeros({2, 2});
  Tensor result = zeros({2, 2});
  gemm({a.data(), 2, 2}, {b.data(), 2, 2}, {result.data(), 2, 2});
  EXPECT_TRUE(std::isnan(result(0, 0)));
}

TEST(Gemm, RejectsInvalidSizesAndStrides) {
  constexpr std::size_t kTooLong = std::size_t{1} << 31;  // above BLAS's 32-bit integers
  Tensor memory = zeros({100});
  real* const values = memory.data();
  struct Case {
    MatrixView a, b;
    Shape result;
    std::string message;
  };
  const auto with_strides = [&](std::size_t row_stride, std::size_t column_stride) -> Case {
    return {{values, 2, 3, row_stride, column_stride},
            {values, 3, 4},
            {2, 4},
            concat("a factor [2, 3] has strides ", row_stride, " and ", column_stride,
                   ", expected a stride of 1 and rows that do not overlap")};
  };
  const std::string expected = ", expected [m, k] times [k, n] into [m, n]";
  const MatrixView a{values, 2, 3}, b{values, 3, 5}, other{values, 4, 5};
  for (const Case& item : std::vector<Case>{
           {a, other, {2, 5}, "[2, 3] times [4, 5] into [2, 5]" + expected},
           {transposed(a), other, {2, 5}, "[3, 2] times [4, 5] into [2, 5]" + expected},
           {a, b, {3, 5}, "[2, 3] times [3, 5] into [3, 5]" + expected},
           {a, b, {2, 4}, "[2, 3] times [3, 5] into [2, 4]" + expected},
           with_strides(5, 2),
           with_strides(1, 1),  // as if the fourth member meant "transposed"
           with_strides(2, 1),
           {{values, 1, kTooLong},
            {values, kTooLong, 1},
            {1, 1},
            "a size or stride of [1, 2147483648] times [2147483648, 1] exceeds BLAS's limit of "
            "2147483647"}})
    EXPECT_INVALID("gemm: " + item.message,
                   gemm(item.a, item.b, {values + 50, item.result[0], item.result[1]}));
  for (const Case& item : {with_strides(5, 1), with_strides(1, 2)})
    EXPECT_NO_THROW(gemm(item.a, item.b, {values + 50, 2, 4}));
}

}  // namespace
}  // namespace rowgrad::blas
