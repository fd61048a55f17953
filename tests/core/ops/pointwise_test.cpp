#include "tests/test.hpp"

namespace {

// Squares, cubes and fifth powers of some of them overflow.
constexpr real kMax = std::numeric_limits<real>::max();
const real kFar[] = {1000, std::cbrt(kMax) * 2, std::sqrt(kMax) * 2, kMax / 2, kMax};

TEST(Pointwise, SaturatesWithoutOverflow) {
  Tape tape;
  const Variable x = tape.input(tensor({4}, {-kInfinity, -1000, 1000, kInfinity}));
  EXPECT_EQ(exp(x).value(), tensor({4}, {0, 0, kInfinity, kInfinity}));
  EXPECT_EQ(tanh(x).value(), tensor({4}, {-1, -1, 1, 1}));
  EXPECT_EQ(sigmoid(x).value(), tensor({4}, {0, 0, 1, 1}));
  EXPECT_EQ(relu(x).value(), tensor({4}, {0, 0, 1000, kInfinity}));

  for (const real size : kFar)
    for (const auto form : {gelu, gelu_tanh, silu})
      EXPECT_EQ(form(tape.input(tensor({2}, {-size, size}))).value(), tensor({2}, {0, size}));
}

TEST(Pointwise, HasFiniteGradientsWhereItSaturates) {
  for (const real size : kFar) {
    const Tensor far = tensor({2}, {-size, size});
    const Tensor weights = gradient_of([](Inputs in) { return in[0]; }, far).dense();
    const Tensor step = tensor({2}, {0, weights(1)});  // 0 on the left, 1 on the right
    for (const auto form : {tanh, sigmoid})
      EXPECT_EQ(gradient_of([form](Inputs x) { return form(x[0]); }, far).dense(), zeros({2}));
    for (const auto form : {relu, gelu, gelu_tanh, silu})
      EXPECT_EQ(gradient_of([form](Inputs x) { return form(x[0]); }, far).dense(), step) << size;
  }
}

TEST(Log, IsMinusInfinityAtZeroAndNotANumberBelow) {
  Tape tape;
  EXPECT_EQ(log(tape.input(scalar(0))).item(), -kInfinity);
  EXPECT_TRUE(std::isnan(log(tape.input(scalar(-1))).item()));
}

TEST(Relu, HasNoGradientAtZeroAndPassesNotANumberOn) {
  EXPECT_EQ(gradient_of([](Inputs x) { return relu(x[0]); }, scalar(0)).dense(), scalar(0));
  Tape tape;
  EXPECT_TRUE(std::isnan(relu(tape.input(scalar(std::numeric_limits<real>::quiet_NaN()))).item()));
}

// As PyTorch 1.13 does it.
TEST(Relu, PassesTheGradientOfNotANumberOnAndClampDoesNot) {
  const Tensor x = full({3}, std::numeric_limits<real>::quiet_NaN());
  const auto gradient_through = [&](const auto& op) {
    Tape tape;
    const Variable in = tape.input(x);
    tape.backward(op(in), full({3}, 2));
    return tape.gradient(in).dense();
  };
  EXPECT_EQ(gradient_through([](const Variable& in) { return relu(in); }), full({3}, 2));
  EXPECT_EQ(gradient_through([](const Variable& in) { return clamp(in, 0, 1); }), zeros({3}));
}

TEST(Clamp, HasNoGradientOutsideAndPassesNotANumberOn) {
  const Tensor x = tensor({5}, {-2, -1, 0.5, 3, 4});
  Tape tape;
  const Variable in = tape.input(x);
  const Variable y = clamp(in, -1, 3);
  EXPECT_EQ(y.value(), tensor({5}, {-1, -1, 0.5, 3, 3}));
  tape.backward(y, full({5}, 1));
  EXPECT_EQ(tape.gradient(in).dense(), tensor({5}, {0, 1, 1, 1, 0}));  // as PyTorch's
  Tape other;
  const Variable nan = other.input(scalar(std::numeric_limits<real>::quiet_NaN()));
  EXPECT_TRUE(std::isnan(clamp(nan, 0, 1).item()));
}

TEST(Abs, HasNoGradientAtZero) {
  EXPECT_EQ(gradient_of([](Inputs x) { return abs(x[0]); }, scalar(0)).dense(), scalar(0));
}

}  // namespace
