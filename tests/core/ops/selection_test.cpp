#include "tests/test.hpp"

namespace {

constexpr real kNan = std::numeric_limits<real>::quiet_NaN();

TEST(Maximum, IsTheLargerNumberBroadcast) {
  Tape tape;
  const Variable a = tape.input(tensor({2, 2}, {1, 5, -3, 4}));
  const Variable b = tape.input(tensor({2}, {2, 4}));
  EXPECT_EQ(maximum(a, b).value(), tensor({2, 2}, {2, 5, 2, 4}));
  EXPECT_EQ(minimum(a, b).value(), tensor({2, 2}, {1, 4, -3, 4}));
  for (const auto op : {maximum, minimum}) {
    const Variable nan = tape.constant(scalar(kNan));
    const Variable one = tape.constant(scalar(1));
    EXPECT_TRUE(std::isnan(op(nan, one).item()) && std::isnan(op(one, nan).item()));
  }
}

TEST(Maximum, SharesTheGradientOfEqualNumbers) {
  Tape tape;
  const Variable a = tape.input(tensor({3}, {1, 2, 3}));
  const Variable b = tape.input(tensor({3}, {1, 5, 0}));
  tape.backward(maximum(a, b), full({3}, 2));
  EXPECT_EQ(tape.gradient(a).dense(), tensor({3}, {1, 0, 2}));
  EXPECT_EQ(tape.gradient(b).dense(), tensor({3}, {1, 2, 0}));
}

// The gradients that PyTorch 1.13 computes, with torch.arange(1, 10) upstream.
TEST(Maximum, GivesBothTheWholeGradientWhereEitherIsNotANumber) {
  constexpr real kInf = kInfinity;
  const Tensor a = tensor({9}, {1, kNan, 1, kNan, 2, 2, kInf, -kInf, -kInf});
  const Tensor b = tensor({9}, {kNan, 1, 2, kNan, 2, 1, kInf, 0, -kInf});
  const Tensor larger = tensor({9}, {1, 2, 0, 4, 2.5, 6, 3.5, 0, 4.5});
  const Tensor other = tensor({9}, {1, 2, 3, 4, 2.5, 0, 3.5, 8, 4.5});
  for (const bool of_maximum : {true, false}) {
    Tape tape;
    const Variable x = tape.input(a);
    const Variable y = tape.input(b);
    tape.backward(of_maximum ? maximum(x, y) : minimum(x, y), counting({9}));
    EXPECT_EQ(tape.gradient(x).dense(), of_maximum ? larger : other);
    EXPECT_EQ(tape.gradient(y).dense(), of_maximum ? other : larger);
  }
}

TEST(Maximum, GivesNothingOfAnInfiniteGradientToTheOther) {
  Tape tape;
  const Variable a = tape.input(tensor({2}, {1, 2}));
  const Variable b = tape.input(tensor({2}, {2, 1}));
  tape.backward(maximum(a, b), full({2}, kInfinity));
  EXPECT_EQ(tape.gradient(a).dense(), tensor({2}, {0, kInfinity}));
  EXPECT_EQ(tape.gradient(b).dense(), tensor({2}, {kInfinity, 0}));
}

TEST(Max, IsTheLargestAlongAnAxis) {
  const Tensor x = tensor({2, 3, 2}, {1, 9, 7, 2, 7, 3, -1, -9, -7, -2, -7, -3});
  Tape tape;
  const Variable in = tape.input(x);
  EXPECT_EQ(max(in, 1).value(), tensor({2, 2}, {7, 9, -1, -2}));
  EXPECT_EQ(max(in, 0).value(), tensor({3, 2}, {1, 9, 7, 2, 7, 3}));
  EXPECT_EQ(max(in, -1).value(), tensor({2, 3}, {9, 7, 7, -1, -2, -3}));
  EXPECT_EQ(argmax(in, 1), ids({2, 2}, {1, 0, 0, 1}));
}

TEST(Max, GivesTheGradientToTheFirstOfEqualNumbers) {
  Tape tape;
  const Variable x = tape.input(tensor({3}, {1, 4, 4}));
  tape.backward(max(x, 0));
  EXPECT_EQ(tape.gradient(x).dense(), tensor({3}, {0, 1, 0}));
}

TEST(Max, PassesNotANumberOn) {
  Tape tape;
  EXPECT_EQ(argmax(tape.input(tensor({4}, {1, kNan, 9, kNan})), 0), ids({}, {1}));
  EXPECT_TRUE(std::isnan(max(tape.input(tensor({3}, {1, kNan, 9})), 0).item()));
  EXPECT_EQ(max(tape.input(zeros({0, 2})), 1).shape(), Shape({0}));
}

TEST(Where, TakesOneNumberOrTheOther) {
  Tape tape;
  const Variable condition = tape.constant(tensor({2, 1}, {1, 0}));
  const Variable a = tape.input(tensor({3}, {1, 2, 3}));
  const Variable b = tape.input(tensor({2, 3}, {4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(where(condition, a, b).value(), tensor({2, 3}, {1, 2, 3, 7, 8, 9}));
  expect_gradients(
      [&](Inputs in) {
        return where(in[0].tape().constant(tensor({2, 1}, {1, 0})), in[0], in[1]);
      },
      {irregular({3}, 1), irregular({2, 3}, 2)});
  const Variable nan = tape.constant(full({9}, kNan));  // is not 0, at every place of a vector
  EXPECT_EQ(where(nan, tape.constant(scalar(1)), tape.constant(scalar(2))).value(), full({9}, 1));
}

TEST(MaskedFill, ReplacesWhatTheMaskSays) {
  const real infinity = std::numeric_limits<real>::infinity();
  Tape tape;
  const Variable mask = tape.constant(tensor({2, 2}, {0, 1, 0, 0}));
  const Variable x = tape.input(tensor({3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  const Variable y = masked_fill(x, mask, -infinity);
  EXPECT_EQ(y.value(),
            tensor({3, 2, 2}, {1, -infinity, 3, 4, 5, -infinity, 7, 8, 9, -infinity, 11, 12}));
  tape.backward(y, full({3, 2, 2}, 1));
  EXPECT_EQ(tape.gradient(x).dense(), tensor({3, 2, 2}, {1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1}));
}

}  // namespace
