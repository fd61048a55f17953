#include "tests/test.hpp"

namespace {

// Rounding of a sum of n products of numbers below 1, in any order: each product and each sum by
// half an epsilon of at most n (Higham 2002, section 3.1); twice that, since the reference in the
// double build rounds as well.
double sum_bound(std::size_t n) {
  const auto count = static_cast<double>(n + 1);
  return count * count * kEpsilon;
}

struct MatmulCase {
  Shape a;
  Shape b;
  Shape result;
};

const std::vector<MatmulCase> kMatmulCases{
    {{2, 3}, {3, 4}, {2, 4}},
    {{1, 1}, {1, 1}, {1, 1}},
    {{1, 3}, {3, 1}, {1, 1}},
    {{3, 1}, {1, 4}, {3, 4}},
    {{2, 0}, {0, 3}, {2, 3}},  // a sum of nothing
    {{0, 3}, {3, 2}, {0, 2}},
    {{2, 3}, {3, 0}, {2, 0}},
    {{4, 2, 3}, {3, 2}, {4, 2, 2}},  // one right matrix for all
    {{2, 2, 2, 3}, {3, 2}, {2, 2, 2, 2}},
    {{4, 2, 3}, {1, 3, 2}, {4, 2, 2}},
    {{4, 2, 3}, {4, 3, 2}, {4, 2, 2}},  // one each
    {{2, 3}, {4, 3, 2}, {4, 2, 2}},     // one left matrix for all
    {{2, 1, 2, 3}, {2, 3, 2}, {2, 2, 2, 2}},
    {{2, 1, 2, 3}, {1, 3, 3, 1}, {2, 3, 2, 1}},  // both sides repeated
    {{1, 2, 3}, {1, 3, 2}, {1, 2, 2}},
    {{7, 1, 3}, {7, 3, 1}, {7, 1, 1}},
    {{0, 2, 3}, {3, 2}, {0, 2, 2}},
    {{0, 2, 3}, {0, 3, 2}, {0, 2, 2}},
    {{2, 2, 0}, {2, 0, 2}, {2, 2, 2}},
};

double product_at(const Tensor& a, const Tensor& b, const Index& index) {
  Index in_a = index;
  Index in_b = index;
  double total = 0;
  for (std::size_t k = 0; k < a.shape().back(); ++k) {
    in_a.back() = k;
    in_b[index.size() - 2] = k;
    total += at(a, in_a) * at(b, in_b);
  }
  return total;
}

TEST(Matmul, GivesTheProductsOfLoopsForEveryPairOfShapes) {
  std::vector<MatmulCase> cases = kMatmulCases;
  cases.push_back({{3, 8, 20, 30}, {8, 30, 40}, {3, 8, 20, 40}});  // shared out among threads
  for (const MatmulCase& item : cases) {
    const Tensor a = irregular(item.a, 1);
    const Tensor b = irregular(item.b, 2);
    Tape tape;
    expect_entries(
        matmul(tape.input(a), tape.input(b)).value(), item.result,
        [&](const Index& index) { return product_at(a, b, index); },
        [&](auto&, double) { return sum_bound(item.a.back()); },
        concat(bracketed(item.a), " times ", bracketed(item.b)));
  }
}

TEST(Matmul, HasTheGradientsOfDifferenceQuotientsForEveryPairOfShapes) {
  for (const MatmulCase& item : kMatmulCases)
    expect_gradients([](Inputs in) { return matmul(in[0], in[1]); },
                     {irregular(item.a, 1), irregular(item.b, 2)},
                     concat(bracketed(item.a), " times ", bracketed(item.b)));
}

TEST(Matmul, TakesTheSameVariableTwice) {
  expect_gradients([](Inputs in) { return matmul(in[0], transpose(in[0])); }, {irregular({2, 3})},
                   "x xᵀ");
  expect_gradients([](Inputs in) { return matmul(in[0], in[0]); }, {irregular({3, 3})}, "x x");
  expect_gradients([](Inputs in) { return matmul(in[0], in[0]); }, {irregular({2, 3, 3})}, "stack");
}

TEST(Matmul, RefusesShapesThatDoNotFit) {
  Tape tape;
  const auto multiply = [&](const Shape& a, const Shape& b) {
    return error_of<std::invalid_argument>(
        [&] { matmul(tape.input(zeros(a)), tape.input(zeros(b))); });
  };
  EXPECT_EQ(multiply({3}, {3, 2}), "matmul: a has shape [3], expected at least two axes");
  EXPECT_EQ(multiply({2, 3}, {}), "matmul: b has shape [], expected at least two axes");
  EXPECT_EQ(multiply({2, 3}, {4, 2}),
            "matmul: [2, 3] times [4, 2]: the inner lengths 3 and 4 differ");
  EXPECT_EQ(multiply({2, 2, 3}, {3, 3, 2}),
            "matmul: shapes [2] and [3] cannot be broadcast together: 2 against 3 on axis -1");
}

// --- Linear -------------------------------------------------------------------------------------

const std::vector<Shape> kInputs{{3}, {1, 3}, {4, 3}, {2, 4, 3}, {2, 1, 2, 3}, {0, 3}, {2, 0, 3}};

TEST(Linear, MultipliesByTheTransposedWeightAndAddsTheBias) {
  const Tensor weight = irregular({2, 3}, 1);
  const Tensor bias = irregular({2}, 2);
  for (const Shape& shape : kInputs)
    for (const bool has_bias : {false, true}) {
      const Tensor x = irregular(shape, 3);
      Shape expected = shape;
      expected.back() = 2;
      Tape tape;
      const Variable input = tape.input(x);
      const Variable w = tape.input(weight);
      const Variable y = has_bias ? linear(input, w, tape.input(bias)) : linear(input, w);
      expect_entries(
          y.value(), expected,
          [&](Index index) {
            const std::size_t output = index.back();
            double total = has_bias ? bias(output) : 0;
            for (index.back() = 0; index.back() < 3; ++index.back())
              total += at(x, index) * static_cast<double>(weight(output, index.back()));
            return total;
          },
          [](auto&, double) { return sum_bound(4); }, concat(bracketed(shape)));
    }
}

TEST(Linear, HasTheGradientsOfDifferenceQuotients) {
  for (const Shape& shape : kInputs) {
    const Tensor x = irregular(shape, 3);
    const Tensor weight = irregular({2, 3}, 1);
    expect_gradients([](Inputs in) { return linear(in[0], in[1]); }, {x, weight},
                     concat(bracketed(shape)));
    expect_gradients([](Inputs in) { return linear(in[0], in[1], in[2]); },
                     {x, weight, irregular({2}, 2)}, concat(bracketed(shape)));
  }
}

TEST(Linear, WorksWithNoInputsAndWithNoOutputs) {
  Tape tape;
  const Variable bias = tape.input(tensor({2}, {5, 6}));
  const Variable y = linear(tape.input(zeros({3, 0})), tape.input(zeros({2, 0})), bias);
  EXPECT_EQ(y.value(), tensor({3, 2}, {5, 6, 5, 6, 5, 6}));
  for (const auto& [x, weight] :
       std::vector<std::pair<Shape, Shape>>{{{3, 0}, {2, 0}}, {{3, 2}, {0, 2}}})
    expect_gradients([](Inputs in) { return linear(in[0], in[1]); },
                     {irregular(x), irregular(weight)},
                     concat(bracketed(x), " by ", bracketed(weight)));
}

TEST(Linear, TakesTheSameVariableForXAndWeight) {
  expect_gradients([](Inputs in) { return linear(in[0], in[0]); }, {irregular({2, 3})});
}

TEST(Linear, RefusesShapesThatDoNotFit) {
  Tape tape;
  const auto apply = [&](const Shape& x, const Shape& weight, const Shape& bias) {
    return error_of<std::invalid_argument>(
        [&] { linear(tape.input(zeros(x)), tape.input(zeros(weight)), tape.input(zeros(bias))); });
  };
  EXPECT_EQ(apply({4, 3}, {3}, {2}), "linear: weight has shape [3], expected [outputs, inputs]");
  EXPECT_EQ(apply({4, 2}, {2, 3}, {2}),
            "linear: x has shape [4, 2], expected [..., 3] for a weight of [2, 3]");
  EXPECT_EQ(apply({}, {2, 3}, {2}),
            "linear: x has shape [], expected [..., 3] for a weight of [2, 3]");
  EXPECT_EQ(apply({4, 3}, {2, 3}, {3}), "linear: bias has shape [3], expected [2]");
  EXPECT_EQ(apply({4, 3}, {2, 3}, {1, 2}), "linear: bias has shape [1, 2], expected [2]");
}

}  // namespace
