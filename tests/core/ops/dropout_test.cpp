#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/gradients.hpp"
#include <rowgrad/core/ops/dropout.hpp>
#include <rowgrad/core/ops/reduction.hpp>

namespace rowgrad {
namespace {

using testing::expect_gradients;
using testing::irregular;

using Inputs = std::span<const Variable>;

Tensor dropped(const Tensor& x, double p, std::uint64_t seed) {
  Random random(seed);
  Tape tape;
  return dropout(tape.input(x), p, random).value();
}

TEST(Dropout, DropsTheShareThatIsAskedForAndScalesTheRest) {
  constexpr std::size_t kCount = 100'000;
  for (const double p : {0.1, 0.25, 0.5, 0.9}) {
    const Tensor y = dropped(full({kCount}, 3), p, 1);
    std::size_t zeros = 0;
    for (const real number : y) {
      if (number == 0) {
        ++zeros;
      } else {
        ASSERT_EQ(number, 3 * static_cast<real>(1 / (1 - p)));
      }
    }
    // Five standard deviations of a binomial count: a right generator strays so far under one seed
    // in two million.
    EXPECT_NEAR(static_cast<double>(zeros), p * kCount, 5 * std::sqrt(p * (1 - p) * kCount)) << p;
  }
}

TEST(Dropout, DrawsThirtyTwoBitsANumberInRowMajorOrder) {
  Random expected(7);
  const Tensor y = dropped(full({3, 5}, 1), 0.5, 7);
  for (std::size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y.data()[i] == 0, expected.bits() < std::uint32_t{1} << 31) << i;
}

TEST(Dropout, DropsTheSameNumbersUnderTheSameSeed) {
  const Tensor x = irregular({40, 25}, 0, 1, 2);
  EXPECT_EQ(dropped(x, 0.3, 7), dropped(x, 0.3, 7));
  EXPECT_NE(dropped(x, 0.3, 7), dropped(x, 0.3, 8));
}

TEST(Dropout, PassesGradientsThroughTheSameMask) {
  const Tensor mask = dropped(full({40, 25}, 1), 0.3, 7);  // 0 or 1 / (1 − p)
  Tape tape;
  Random random(7);
  const Variable x = tape.input(irregular({40, 25}, 1));
  tape.backward(sum(dropout(x, 0.3, random)));
  EXPECT_EQ(tape.gradient(x).dense(), mask);
  expect_gradients(
      [](Inputs in) {
        Random same(5);
        return dropout(in[0], 0.4, same);
      },
      {irregular({3, 7})});
}

TEST(Dropout, GivesTheVariableItselfAndDrawsNothingWhereNothingIsDropped) {
  Random random(7);
  const std::string state = random.state();
  Tape tape;
  const Variable x = tape.input(irregular({3}));
  EXPECT_EQ(&dropout(x, 0, random).value(), &x.value());
  EXPECT_EQ(tape.size(), 1U);
  EXPECT_EQ(random.state(), state);
}

TEST(Dropout, LeavesZerosWhereEverythingIsDropped) {
  Random random(7);
  Tape tape;
  const Variable x = tape.input(irregular({3, 5}));
  const Variable y = dropout(x, 1, random);
  EXPECT_EQ(y.value(), zeros({3, 5}));
  tape.backward(sum(y));
  EXPECT_EQ(tape.gradient(x).dense(), zeros({3, 5}));
}

TEST(Dropout, TakesATensorOfNoNumbers) {
  EXPECT_EQ(dropped(zeros({2, 0}), 0.5, 1).shape(), Shape({2, 0}));
}

TEST(Dropout, RefusesWhatIsNoProbability) {
  using testing::error_of;
  Random random(7);
  const std::string state = random.state();
  Tape tape;
  const Variable x = tape.input(zeros({2}));
  EXPECT_EQ(error_of<std::invalid_argument>([&] { dropout(x, -0.1, random); }),
            "dropout: p is -0.1, expected 0 to 1");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { dropout(x, 1.5, random); }),
            "dropout: p is 1.5, expected 0 to 1");
  EXPECT_EQ(error_of<std::invalid_argument>(
                [&] { dropout(x, std::numeric_limits<double>::quiet_NaN(), random); }),
            "dropout: p is nan, expected 0 to 1");
  EXPECT_EQ(random.state(), state);
}

}  // namespace
}  // namespace rowgrad
