#include "tests/test.hpp"

namespace {

TEST(Axes, CountFromEitherEnd) {
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_EQ(resolve_axis("op", axis, 3), static_cast<std::size_t>(axis));
    EXPECT_EQ(resolve_axis("op", axis - 3, 3), static_cast<std::size_t>(axis));
  }
}

TEST(Axes, OutsideTheRankAreRefused) {
  EXPECT_INVALID("sum: axis 3 is outside a rank of 3", resolve_axis("sum", 3, 3));
  EXPECT_INVALID("sum: axis -4 is outside a rank of 3", resolve_axis("sum", -4, 3));
  EXPECT_INVALID("sum: axis 0 is outside a rank of 0", resolve_axis("sum", 0, 0));
}

TEST(Axes, AreMarkedAndMustDiffer) {
  EXPECT_EQ(resolve_axes("op", {0, -1}, 3), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(resolve_axes("op", {}, 2), (std::vector<bool>{false, false}));
  EXPECT_INVALID("mean: axis -1 is named twice", resolve_axes("mean", {2, 0, -1}, 3));
  EXPECT_THROW(resolve_axes("mean", {3}, 3), std::invalid_argument);
}

}  // namespace
