#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

using testing::error_of;

TEST(Axes, CountFromEitherEnd) {
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_EQ(resolve_axis("op", axis, 3), static_cast<std::size_t>(axis));
    EXPECT_EQ(resolve_axis("op", axis - 3, 3), static_cast<std::size_t>(axis));
  }
}

TEST(Axes, OutsideTheRankAreRefused) {
  EXPECT_EQ(error_of<std::invalid_argument>([] { resolve_axis("sum", 3, 3); }),
            "sum: axis 3 is outside a rank of 3");
  EXPECT_EQ(error_of<std::invalid_argument>([] { resolve_axis("sum", -4, 3); }),
            "sum: axis -4 is outside a rank of 3");
  EXPECT_EQ(error_of<std::invalid_argument>([] { resolve_axis("sum", 0, 0); }),
            "sum: axis 0 is outside a rank of 0");
}

TEST(Axes, AreMarkedAndMustDiffer) {
  EXPECT_EQ(resolve_axes("op", {0, -1}, 3), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(resolve_axes("op", {}, 2), (std::vector<bool>{false, false}));
  EXPECT_EQ(error_of<std::invalid_argument>([] {
              resolve_axes("mean", {2, 0, -1}, 3);
            }),
            "mean: axis -1 is named twice");
  EXPECT_THROW(resolve_axes("mean", {3}, 3), std::invalid_argument);
}

}  // namespace
}  // namespace rowgrad
