#include "tests/test.hpp"

namespace {

TEST(Transpose, ExchangesTwoAxes) {
  Tape tape;
  const Variable x = tape.input(counting({2, 3, 4}));
  EXPECT_EQ(transpose(x).value(), permute(x, {0, 2, 1}).value());
  EXPECT_EQ(transpose(x, 0, -1).value(), permute(x, {2, 1, 0}).value());
  EXPECT_EQ(transpose(x, 1, 1).value(), x.value());
  EXPECT_EQ(permute(x, {-1, 0, -2}).value(), permute(x, {2, 0, 1}).value());
}

// Whether a slice's backward rule writes to entries that it did not take shows in -0: adding 0 to
// it gives +0. If each did, a loop over an axis would cost its square.
TEST(Slice, LeavesTheGradientOfOtherEntriesAlone) {
  for (const int axis : {0, 1, 2}) {
    const Tensor values = irregular({3, 4, 5});
    Tape tape;
    const Variable x = tape.input(values);
    const std::vector<Variable> parts = split(x, 1, axis);
    // All of x gets -0 first, since backward comes to the product last recorded.
    const Variable all = concatenate(parts, axis) + x;
    tape.backward(all, full(values.shape(), real{-0.0}));
    for (const real gradient : tape.gradient(x).dense()) EXPECT_TRUE(std::signbit(gradient));
  }
}

TEST(Split, CutsAnAxisIntoPiecesOfALength) {
  Tape tape;
  const Variable x = tape.input(counting({2, 5}));
  const std::vector<Variable> parts = split(x, 2, -1);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[1].value(), tensor({2, 2}, {3, 4, 8, 9}));
  EXPECT_EQ(parts[2].shape(), Shape({2, 1}));
  EXPECT_EQ(concatenate(parts, 1).value(), x.value());
  EXPECT_EQ(split(x, 7, 0).size(), 1U);
}

}  // namespace
