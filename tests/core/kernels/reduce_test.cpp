#include "tests/test.hpp"

namespace rowgrad::kernels {
namespace {

TEST(Sum, AddsAnyCountOfNumbers) {
  for (const std::size_t count : {0, 1, 2, 3, 31, 64, 65, 1000, 4095, 4096, 4097, 40001}) {
    // Ones and zeros: every partial sum is exact, also in float.
    Tensor x = empty({count});
    double expected = 0;
    for (std::size_t i = 0; i < count; ++i) {
      x.data()[i] = static_cast<real>(i % 3 == 0);
      expected += x.data()[i];
    }
    EXPECT_EQ(sum(x.data(), count), static_cast<real>(expected)) << count;
  }
}

// Sums of equal numbers are the hardest: their rounding errors all have the same sign.
TEST(Sum, OfMillionsIsAsAccurateAsOfFew) {
  constexpr double kTolerance = std::is_same_v<real, float> ? 1e-6 : 1e-13;
  for (const std::size_t columns : {1, 3, 200})
    for (const std::size_t rows : {100, 1000, 10'000, 100'000, 1'234'567}) {
      if (rows * columns > 20'000'000) continue;
      for (const double number : {0.1, 0.7, 3.3}) {
        const Tensor x = full({rows, columns}, static_cast<real>(number));
        const double expected = static_cast<double>(x.data()[0]) * static_cast<double>(rows);
        expect_near(sum_along(x, {true, false}), full({1, columns}, static_cast<real>(expected)),
                    kTolerance * expected, concat(rows, " rows of ", number));
      }
    }
}

TEST(Sum, KeepsSmallNumbersBesideALargeTotal) {
  // A running sum of ones in float stops at 2^24.
  constexpr std::size_t kCount = (std::size_t{1} << 24) + 4096;
  for (const std::size_t columns : {1, 2})
    EXPECT_EQ(sum_along(full({kCount, columns}, 1), {true, false}),
              full({1, columns}, static_cast<real>(kCount)));
}

TEST(SumAlong, KeepsTheMarkedAxesWithLengthOne) {
  for (const Shape& shape :
       {Shape{}, Shape{5}, Shape{3, 4}, Shape{2, 3, 4}, Shape{2, 3, 1, 4, 2}, Shape{3, 0, 2},
        Shape{0, 3}, Shape{2, 600}, Shape{70, 3}, Shape{3, 9000}}) {
    Tensor x = empty(shape);
    for (std::size_t k = 0; k < x.size(); ++k) x.data()[k] = static_cast<real>(k % 97);
    for (unsigned mask = 0; mask < 1U << shape.size(); ++mask) {
      std::vector<bool> reduced(shape.size());
      Shape summed = shape;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        reduced[axis] = mask >> axis & 1U;
        if (reduced[axis]) summed[axis] = 1;
      }
      Tensor expected = zeros(summed);
      for (std::size_t k = 0; k < x.size(); ++k) {
        const Index index = index_at(shape, k);
        std::size_t to = 0;
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
          to = to * summed[axis] + (reduced[axis] ? 0 : index[axis]);
        expected.data()[to] += x.data()[k];  // whole numbers below 2^24: exact
      }
      EXPECT_EQ(sum_along(x, reduced), expected)
          << bracketed(shape) << " along " << bracketed(reduced);
    }
  }
}

}  // namespace
}  // namespace rowgrad::kernels
