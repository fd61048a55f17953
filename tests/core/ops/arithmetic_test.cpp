#include "tests/test.hpp"

namespace {

struct Binary {
  std::string name;
  Variable (*op)(const Variable&, const Variable&);
  double (*reference)(double, double);
};

const std::vector<Binary> kBinaries{
    {"add", [](const Variable& a, const Variable& b) { return a + b; },
     [](double a, double b) { return a + b; }},
    {"subtract", [](const Variable& a, const Variable& b) { return a - b; },
     [](double a, double b) { return a - b; }},
    {"multiply", [](const Variable& a, const Variable& b) { return a * b; },
     [](double a, double b) { return a * b; }},
    {"divide", [](const Variable& a, const Variable& b) { return a / b; },
     [](double a, double b) { return a / b; }},
};

struct Shapes {
  Shape a;
  Shape b;
  Shape result;
};

const std::vector<Shapes> kShapes{
    {{}, {}, {}},
    {{}, {3}, {3}},
    {{4}, {4}, {4}},
    {{2, 3}, {3}, {2, 3}},
    {{2, 3}, {2, 1}, {2, 3}},
    {{3, 1}, {1, 4}, {3, 4}},
    {{2, 1, 3}, {2, 1}, {2, 2, 3}},
    {{1, 3, 1}, {2, 1, 2}, {2, 3, 2}},
    {{2, 1, 2, 1}, {2, 1, 3}, {2, 2, 2, 3}},
    {{1, 1}, {3}, {1, 3}},
    {{0}, {1}, {0}},
    {{0, 3}, {3}, {0, 3}},
    {{2, 1}, {2, 0}, {2, 0}},
};

TEST(Arithmetic, GivesTheNumbersThatLoopsGiveForEveryPairOfShapes) {
  for (const Binary& binary : kBinaries)
    for (const Shapes& shapes : kShapes)
      for (const bool exchanged : {false, true}) {
        const Tensor a = irregular(exchanged ? shapes.b : shapes.a, 1);
        const Tensor b = irregular(exchanged ? shapes.a : shapes.b, 2, 0.5, 2);
        Tape tape;
        const Variable y = binary.op(tape.input(a), tape.constant(b));
        // One operation, rounded once. Computing the reference in double does not change that,
        // because a double has more than twice the digits of a float (Figueroa 1995).
        expect_exact(
            y.value(), shapes.result,
            [&](const Index& i) { return binary.reference(at(a, i), at(b, i)); },
            concat(binary.name, " ", bracketed(a.shape()), " and ", bracketed(b.shape())));
      }
}

TEST(Arithmetic, HasTheGradientsOfDifferenceQuotientsForEveryPairOfShapes) {
  for (const Binary& binary : kBinaries)
    for (const Shapes& shapes : kShapes)
      for (const bool exchanged : {false, true}) {
        const Tensor a = irregular(exchanged ? shapes.b : shapes.a, 1);
        const Tensor b = irregular(exchanged ? shapes.a : shapes.b, 2, 0.5, 2);
        expect_gradients(
            [&](Inputs x) { return binary.op(x[0], x[1]); }, {a, b},
            concat(binary.name, " ", bracketed(a.shape()), " and ", bracketed(b.shape())));
      }
}

// The gradient of a sum is a single value, which must still be counted and negated for every entry.
TEST(Arithmetic, PassesTheGradientOfASumOnToEveryShape) {
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{
           {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{1, 3}, {2, 1}}, {{}, {4, 2}}, {{0, 3}, {3}}}) {
    Tape tape;
    const Variable x = tape.input(irregular(a));
    const Variable y = tape.input(irregular(b));
    const Variable difference = x - y;
    tape.backward(sum(difference));
    const auto times = [&](const Shape& shape) {
      return static_cast<real>(element_count(difference.shape())) /
             static_cast<real>(std::max<std::size_t>(1, element_count(shape)));
    };
    EXPECT_EQ(tape.gradient(x).dense(), full(a, times(a)));
    EXPECT_EQ(tape.gradient(y).dense(), full(b, -times(b)));
  }
}

TEST(Arithmetic, TakesTheSameVariableOnBothSides) {
  const Tensor x = irregular({2, 3}, 0, 0.5, 2);
  for (const Binary& binary : kBinaries)
    expect_gradients([&](Inputs in) { return binary.op(in[0], in[0]); }, {x}, binary.name);

  // Closed forms: 2, 0, 2x, 0.
  const Tensor weights = gradient_of([](Inputs in) { return in[0]; }, x).dense();
  const auto factor = [&](std::size_t op) {
    return gradient_of([&](Inputs in) { return kBinaries[op].op(in[0], in[0]); }, x).dense();
  };
  EXPECT_EQ(factor(0), Tensor(real{2} * weights));
  EXPECT_EQ(factor(1), zeros({2, 3}));
  EXPECT_EQ(factor(2), Tensor(real{2} * (weights * x)));
  EXPECT_EQ(factor(3), zeros({2, 3}));
}

TEST(Arithmetic, RefusesShapesThatDoNotFitAndNamesTheOp) {
  for (const Binary& binary : kBinaries) {
    Tape tape;
    const Variable a = tape.input(zeros({2, 3}));
    const Variable b = tape.input(zeros({2}));
    EXPECT_INVALID(
        binary.name +
            ": shapes [2, 3] and [2] cannot be broadcast together: 3 against 2 on axis -1",
        binary.op(a, b));
    EXPECT_EQ(tape.size(), 2U);
  }
}

struct Unary {
  std::string name;
  Variable (*op)(const Variable&);
  double (*reference)(double);
};

const std::vector<Unary> kUnaries{
    {"-x", [](const Variable& x) { return -x; }, [](double x) { return -x; }},
    {"x + 3", [](const Variable& x) { return x + real{3}; }, [](double x) { return x + 3; }},
    {"3 + x", [](const Variable& x) { return real{3} + x; }, [](double x) { return 3 + x; }},
    {"x - 3", [](const Variable& x) { return x - real{3}; }, [](double x) { return x - 3; }},
    {"3 - x", [](const Variable& x) { return real{3} - x; }, [](double x) { return 3 - x; }},
    {"x * 3", [](const Variable& x) { return x * real{3}; }, [](double x) { return x * 3; }},
    {"3 * x", [](const Variable& x) { return real{3} * x; }, [](double x) { return 3 * x; }},
    {"x / 3", [](const Variable& x) { return x / real{3}; }, [](double x) { return x / 3; }},
    {"3 / x", [](const Variable& x) { return real{3} / x; }, [](double x) { return 3 / x; }},
};

TEST(Arithmetic, TakesNumbersOnEitherSide) {
  for (const Unary& unary : kUnaries)
    for (const Shape& shape : {Shape{}, Shape{19}, Shape{2, 3}, Shape{0, 2}}) {
      const Tensor x = irregular(shape, 1, 0.5, 2);
      Tape tape;
      expect_exact(
          unary.op(tape.input(x)).value(), shape,
          [&](const Index& i) { return unary.reference(at(x, i)); }, unary.name);
      expect_gradients([&](Inputs in) { return unary.op(in[0]); }, {x}, unary.name);
    }
}

}  // namespace
