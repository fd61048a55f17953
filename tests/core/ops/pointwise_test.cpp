#include <numbers>

#include "tests/test.hpp"

namespace {

// The cubic in the tanh form of gelu (Hendrycks & Gimpel 2016).
double gelu_by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double gelu_by_erf(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }

struct NamedFunction {
  std::string name;
  Variable (*op)(const Variable&);
  double (*reference)(double);
  double low;  // where it is tried
  double high;
};

const std::vector<NamedFunction> kNamedFunctions{
    {"exp", [](const Variable& x) { return exp(x); }, [](double x) { return std::exp(x); }, -3, 3},
    {"log", [](const Variable& x) { return log(x); }, [](double x) { return std::log(x); }, 0.3, 9},
    {"tanh", [](const Variable& x) { return tanh(x); }, [](double x) { return std::tanh(x); }, -3,
     3},
    {"sigmoid", [](const Variable& x) { return sigmoid(x); },
     [](double x) { return 1 / (1 + std::exp(-x)); }, -5, 5},
    {"relu", [](const Variable& x) { return relu(x); }, [](double x) { return x > 0 ? x : 0; }, -1,
     1},
    {"gelu (erf)", [](const Variable& x) { return gelu(x); }, gelu_by_erf, -4, 4},
    {"gelu (tanh)", gelu_tanh, gelu_by_tanh, -4, 4},
    {"sqrt", sqrt, [](double x) { return std::sqrt(x); }, 0.2, 9},
    {"abs", abs, [](double x) { return std::abs(x); }, -3, 3},
    {"clamp", [](const Variable& x) { return clamp(x, real{-0.5}, 2); },
     [](double x) { return std::min(std::max(x, -0.5), 2.0); }, -0.4, 1.9},
    {"pow 3", [](const Variable& x) { return pow(x, 3); }, [](double x) { return x * x * x; }, -2,
     2},
    {"pow -1.5", [](const Variable& x) { return pow(x, -1.5); },
     [](double x) { return std::pow(x, -1.5); }, 0.7, 4},
    {"pow 0", [](const Variable& x) { return pow(x, 0); }, [](double) { return 1.0; }, -2, 2},
};

// Numbers in a function's range, none of them so close to relu's kink that a difference quotient
// reaches across it.
Tensor numbers_for(const NamedFunction& function, const Shape& shape) {
  Tensor x = irregular(shape, 1, function.low, function.high);
  for (real& number : x.storage()) number += std::copysign(real{0.05}, number);
  return x;
}

const std::vector<Shape> kPointwiseShapes{{}, {1}, {19}, {2, 3}, {2, 1, 3, 2}, {0}, {2, 0}};

TEST(Pointwise, GivesTheNumbersOfTheStandardLibrary) {
  // The vector functions err by up to 2 epsilon relative to numbers of up to about their argument's
  // size (40 for erf in double; see elementwise_test), the few operations around them by half of
  // one each; gelu subtracts numbers of about 1 and multiplies by x, and its cubic is amplified by
  // at most |x tanh'| < 1.
  const double erf_error = sizeof(real) == 8 ? 40 : 2;
  for (const NamedFunction& function : kNamedFunctions)
    for (const Shape& shape : kPointwiseShapes) {
      const Tensor x = numbers_for(function, shape);
      Tape tape;
      expect_entries(
          function.op(tape.input(x)).value(), shape,
          [&](const Index& i) { return function.reference(at(x, i)); },
          [&](const Index& i, double expected) {
            const double scale = std::max(std::abs(expected), std::abs(at(x, i)));
            return (4 + erf_error) * kEpsilon * scale;
          },
          function.name);
    }
}

TEST(Pointwise, HasTheGradientsOfDifferenceQuotients) {
  for (const NamedFunction& function : kNamedFunctions)
    for (const Shape& shape : kPointwiseShapes)
      expect_gradients([&](Inputs x) { return function.op(x[0]); }, {numbers_for(function, shape)},
                       function.name);
}

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

TEST(Gelu, HasTheTwoFormsOfThePaper) {
  Tape tape;
  const Variable one = tape.constant(scalar(1));
  // Φ(1) = 0.841344746…, and 0.841191990… by the approximation.
  EXPECT_NEAR(gelu(one).item(), 0.8413447460685429, 50 * kEpsilon);
  EXPECT_NEAR(gelu_tanh(one).item(), 0.8411919906082768, 50 * kEpsilon);
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
  EXPECT_INVALID("clamp: low 2 is above high 1", clamp(nan, 2, 1));
}

TEST(Abs, HasNoGradientAtZero) {
  EXPECT_EQ(gradient_of([](Inputs x) { return abs(x[0]); }, scalar(0)).dense(), scalar(0));
}

TEST(Pointwise, MakesAnOpOfAFunctionAndItsDerivative) {
  const auto cube = [](const Variable& x) {
    return pointwise(
        "cube", x, [](const Simd& v) { return v * v * v; },
        [](const Simd& g, const Simd& v, const Simd&) { return g * Simd(real{3}) * v * v; });
  };
  Tape tape;
  EXPECT_EQ(cube(tape.input(tensor({3}, {-2, 0, 3}))).value(), tensor({3}, {-8, 0, 27}));
  expect_gradients([&](Inputs x) { return cube(x[0]); }, {irregular({3, 5})}, "cube");
}

TEST(Pointwise, MakesAnOpOfTwoVariablesWhichItBroadcasts) {
  const auto op = [](Inputs in) {
    return pointwise(
        "op", in[0], in[1], [](Simd x, Simd y) { return (x * x + 1) * y; },
        [](Simd g, Simd x, Simd y) { return 2 * g * x * y; },
        [](Simd g, Simd x) { return g * (x * x + 1); });
  };
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{
           {{3, 5}, {3, 5}}, {{3, 5}, {5}}, {{5}, {3, 5}}, {{3, 1}, {1, 5}}, {{}, {2, 3}}})
    expect_gradients(op, {irregular(a), irregular(b)}, concat(bracketed(a), " and ", bracketed(b)));
}

TEST(Pointwise, ChoosesForEachElement) {
  const auto leaky = [](const Variable& x) {
    return pointwise(
        "leaky", x, [](Simd v) { return select(v > 0, v, v / 4); },
        [](Simd g, Simd v, Simd) { return select(v > 0, g, g / 4); });
  };
  const Tensor x = tensor({9}, {-2, -1, 1, 2, -8, 4, -4, 0, 3});
  Tape tape;
  EXPECT_EQ(leaky(tape.input(x)).value(), tensor({9}, {-0.5, -0.25, 1, 2, -2, 4, -1, 0, 3}));
  expect_gradients([&](Inputs in) { return leaky(in[0]); }, {irregular({3, 5})}, "leaky");
}

}  // namespace
