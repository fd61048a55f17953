#include "tests/test.hpp"

namespace rowgrad::kernels {
namespace {

// Sums of equal values are the hardest, because many rounding errors have the same sign.
TEST(Sum, StaysAccurateForMillionsOfValues) {
  constexpr double kTolerance = std::is_same_v<real, float> ? 1e-6 : 1e-13;
  for (const std::size_t columns : {1, 3, 200})
    for (const std::size_t rows : {100, 1000, 10'000, 100'000, 1'234'567}) {
      if (rows * columns > 20'000'000) continue;
      for (const double value : {0.1, 0.7, 3.3}) {
        const Tensor x = full({rows, columns}, static_cast<real>(value));
        const double expected = static_cast<double>(x.data()[0]) * static_cast<double>(rows);
        expect_near(sum_along(x, {true, false}), full({1, columns}, static_cast<real>(expected)),
                    kTolerance * expected, concat(rows, " rows of ", value));
      }
    }
}

// One long loop is faster than several short loops.
TEST(Broadcast, JoinsContiguousAxes) {
  using Extents = std::vector<std::size_t>;
  const Shape whole{2, 3, 4}, matrix{3, 4}, row{4}, column{3, 1};
  EXPECT_EQ(broadcast_loops(whole, {&whole, &whole}).extents, Extents({24}));
  EXPECT_EQ(broadcast_loops(whole, {&whole, &matrix}).extents, Extents({12, 2}));
  EXPECT_EQ(broadcast_loops(whole, {&whole, &row}).extents, Extents({4, 6}));
  EXPECT_EQ(broadcast_loops(whole, {&whole, &column}).extents, Extents({4, 3, 2}));
}

}  // namespace
}  // namespace rowgrad::kernels
