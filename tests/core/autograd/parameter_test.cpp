#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/tensors.hpp"
#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {
namespace {

using testing::error_of;
using testing::tensor;

TEST(Parameter, StartsTrainableAndWithoutGradient) {
  Parameter weight("token.weight", tensor({2}, {3, 4}));
  EXPECT_EQ(weight.name(), "token.weight");
  EXPECT_EQ(weight.value(), tensor({2}, {3, 4}));
  EXPECT_TRUE(weight.trainable());
  EXPECT_TRUE(weight.gradient().is_none());
  weight.rename("head.weight");
  EXPECT_EQ(weight.name(), "head.weight");
}

TEST(Parameter, CountsChangesOfItsValueButNotReadingOrGradients) {
  Parameter weight("weight", zeros({2}));
  const std::uint64_t start = weight.version();
  weight.value();
  weight.add_gradient(full({2}, 1));
  weight.zero_gradient();
  EXPECT_EQ(weight.version(), start);
  weight.numbers()[1] = 5;
  EXPECT_EQ(weight.version(), start + 1);
  EXPECT_EQ(weight.value(), tensor({2}, {0, 5}));
  weight.assign(tensor({2}, {6, 7}));
  EXPECT_EQ(weight.version(), start + 2);
  EXPECT_EQ(weight.value(), tensor({2}, {6, 7}));
}

TEST(Parameter, AddsGradientsUpUntilTheyAreCleared) {
  Parameter weight("weight", zeros({3, 1}));
  weight.add_gradient(RowGradient({3, 1}, {2}, full({1, 1}, 4)));
  weight.add_gradient(Gradient());
  EXPECT_TRUE(weight.gradient().is_rows());
  weight.add_gradient(full({3, 1}, 1));
  EXPECT_EQ(weight.gradient().dense(), tensor({3, 1}, {1, 1, 5}));
  weight.zero_gradient();
  EXPECT_TRUE(weight.gradient().is_none());
}

TEST(Parameter, RefusesValuesAndGradientsOfAnotherShape) {
  Parameter weight("head.weight", tensor({2}, {3, 4}));
  const std::uint64_t version = weight.version();
  EXPECT_EQ(error_of<std::invalid_argument>([&] {
              weight.assign(zeros({2, 1}));
            }),
            "head.weight: the new value has shape [2, 1], expected [2]");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { weight.add_gradient(zeros({3})); }),
            "head.weight: a gradient of shape [3] was given, expected [2]");
  EXPECT_EQ(weight.value(), tensor({2}, {3, 4}));
  EXPECT_EQ(weight.version(), version);
  EXPECT_TRUE(weight.gradient().is_none());
}

}  // namespace
}  // namespace rowgrad
