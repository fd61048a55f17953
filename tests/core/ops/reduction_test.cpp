#include "tests/test.hpp"

namespace {

TEST(Mean, OfOnesIsOne) {
  for (std::size_t count = 1; count < 500; ++count) {
    Tape tape;
    const Variable ones = tape.input(full({count, 2}, 1));
    EXPECT_EQ(mean(ones).value(), scalar(1)) << count;
    EXPECT_EQ(mean(ones, {0}).value(), full({2}, 1)) << count;
  }
}

TEST(Var, OfNumbersFarFromZeroIsThatOfTheirDistances) {
  const double far = std::is_same_v<real, float> ? 1e6 : 1e15;
  const Tensor x = irregular({999, 3}, 0, far - 20, far + 20);
  Tape tape;
  const Tensor variances = var(tape.input(x), {0}).value();
  for (std::size_t column = 0; column < 3; ++column) {
    long double total = 0, squares = 0;
    for (std::size_t row = 0; row < 999; ++row) {
      const long double distance = x(row, column) - static_cast<long double>(far);
      total += distance;
      squares += distance * distance;
    }
    const auto expected = static_cast<double>((squares - total * total / 999) / 998);
    EXPECT_NEAR(variances(column), expected, 8 * kEpsilon * expected);
  }
}

TEST(Cumsum, TakesRowsOfAnyWidth) {
  for (const std::size_t width : {63U, 64U, 65U, 128U}) {
    Tape tape;
    const Variable x = tape.input(irregular({3, width}));
    const Tensor sums = cumsum(x, 0).value();
    for (std::size_t i = 0; i < width; ++i) {
      EXPECT_EQ(sums(0, i), x.value()(0, i));
      EXPECT_NEAR(sums(2, i), x.value()(0, i) + x.value()(1, i) + x.value()(2, i), 1e-6);
    }
  }
}

}  // namespace
