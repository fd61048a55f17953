#include "tests/test.hpp"

namespace {

struct ReductionCase {
  Shape shape;
  std::vector<int> axes;
  Shape dropped;  // the result's shape without the summed axes …
  Shape kept;     // … and with them
};

const std::vector<ReductionCase> kReductionCases{
    {{}, {}, {}, {}},
    {{4}, {0}, {}, {1}},
    {{4}, {}, {4}, {4}},
    {{2, 3}, {0}, {3}, {1, 3}},
    {{2, 3}, {1}, {2}, {2, 1}},
    {{2, 3}, {-1, 0}, {}, {1, 1}},
    {{2, 3, 4}, {1}, {2, 4}, {2, 1, 4}},
    {{2, 3, 4}, {0, 2}, {3}, {1, 3, 1}},
    {{2, 3, 4}, {-1, -2}, {2}, {2, 1, 1}},
    {{2, 3, 2, 2}, {2, 0}, {3, 2}, {1, 3, 1, 2}},
    {{1, 3, 1}, {0}, {3, 1}, {1, 3, 1}},
};

// The sum by walking x and adding each number to where it belongs; whole numbers, so it is exact.
Tensor summed(const Tensor& x, const ReductionCase& item) {
  Tensor result = zeros(item.kept);
  for (std::size_t k = 0; k < x.size(); ++k) {
    const Index index = index_at(x.shape(), k);
    std::size_t to = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis)
      to = to * item.kept[axis] + (item.kept[axis] == 1 ? 0 : index[axis]);
    result.data()[to] += x.data()[k];
  }
  return result;
}

TEST(Sum, AlongAxesDropsThemOrKeepsThemWithLengthOne) {
  for (const ReductionCase& item : kReductionCases) {
    const std::string what = concat(bracketed(item.shape), " along ", bracketed(item.axes));
    const Tensor x = counting(item.shape);
    Tensor expected = summed(x, item);
    Tape tape;
    EXPECT_EQ(sum(tape.input(x), item.axes, KeepAxes::kYes).value(), expected) << what;
    expected.reshape(item.dropped);
    EXPECT_EQ(sum(tape.input(x), item.axes).value(), expected) << what;
  }
}

TEST(Mean, DividesTheSumByHowManyNumbersWentIn) {
  for (const ReductionCase& item : kReductionCases) {
    const Tensor x = irregular(item.shape);
    Tape tape;
    const Variable total = sum(tape.input(x), item.axes, KeepAxes::kYes);
    const double count = static_cast<double>(x.size()) / static_cast<double>(total.value().size());
    const Variable average = mean(tape.input(x), item.axes, KeepAxes::kYes);
    expect_exact(average.value(), item.kept,
                 [&](const Index& i) { return at(total.value(), i) / count; });
    EXPECT_EQ(mean(tape.input(x), item.axes).shape(), item.dropped);
  }
  Tape tape;
  EXPECT_EQ(mean(tape.input(tensor({2, 2}, {1, 2, 3, 6}))).value(), scalar(3));
}

TEST(Mean, OfOnesIsOne) {
  for (std::size_t count = 1; count < 500; ++count) {
    Tape tape;
    const Variable ones = tape.input(full({count, 2}, 1));
    EXPECT_EQ(mean(ones).value(), scalar(1)) << count;
    EXPECT_EQ(mean(ones, {0}).value(), full({2}, 1)) << count;
  }
}

TEST(Var, OfNumbersFarFromZeroIsThatOfTheirDistances) {
  const double far = std::is_same_v<real, float> ? 1e6 : 1e15;
  const Tensor x = irregular({999, 3}, 0, far - 20, far + 20);
  Tape tape;
  const Tensor variances = var(tape.input(x), {0}).value();
  for (std::size_t column = 0; column < 3; ++column) {
    long double total = 0, squares = 0;
    for (std::size_t row = 0; row < 999; ++row) {
      const long double distance = x(row, column) - static_cast<long double>(far);
      total += distance;
      squares += distance * distance;
    }
    const auto expected = static_cast<double>((squares - total * total / 999) / 998);
    EXPECT_NEAR(variances(column), expected, 8 * kEpsilon * expected);
  }
}

TEST(Reductions, HaveTheGradientsOfDifferenceQuotients) {
  for (const ReductionCase& item : kReductionCases) {
    const std::string what = concat(bracketed(item.shape), " along ", bracketed(item.axes));
    const Tensor x = irregular(item.shape);
    for (const KeepAxes keep : {KeepAxes::kNo, KeepAxes::kYes}) {
      expect_gradients([&](Inputs in) { return sum(in[0], item.axes, keep); }, {x}, what);
      expect_gradients([&](Inputs in) { return mean(in[0], item.axes, keep); }, {x}, what);
    }
    expect_gradients([](Inputs in) { return sum(in[0]); }, {x}, what);
    expect_gradients([](Inputs in) { return mean(in[0]); }, {x}, what);
  }
}

TEST(Sum, OfEverythingIsANumberOfRankZero) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{5}, Shape{2, 3, 4}}) {
    Tape tape;
    const double n = static_cast<double>(element_count(shape));
    EXPECT_EQ(sum(tape.input(counting(shape))).value(), scalar(static_cast<real>(n * (n + 1) / 2)));
  }
}

TEST(Sum, OfNoNumbersIsZero) {
  Tape tape;
  const Variable nothing = tape.input(zeros({2, 0, 3}));
  EXPECT_EQ(sum(nothing).value(), scalar(0));
  EXPECT_EQ(sum(nothing, {1}).value(), zeros({2, 3}));
  EXPECT_EQ(sum(nothing, {0}).value(), zeros({0, 3}));
  EXPECT_EQ(sum(nothing, {0}, KeepAxes::kYes).value(), zeros({1, 0, 3}));
  expect_gradients([](Inputs in) { return sum(in[0], {1}); }, {zeros({2, 0, 3})});
}

TEST(Mean, OfNoNumbersIsRefused) {
  const std::string message = "mean: there are no numbers to take the mean of";
  Tape tape;
  const Variable nothing = tape.input(zeros({2, 0}));
  EXPECT_INVALID(message, mean(nothing));
  EXPECT_INVALID(message, mean(nothing, {1}));
}

TEST(Reductions, RefuseAxesThatAreNotThere) {
  Tape tape;
  const Variable x = tape.input(zeros({2, 3}));
  EXPECT_INVALID("sum: axis 2 is outside a rank of 2", sum(x, {2}));
  EXPECT_INVALID("sum: axis -1 is named twice", sum(x, {1, -1}));
  EXPECT_THROW(mean(x, {-3}), std::invalid_argument);
}

TEST(Cumsum, TakesRowsOfAnyWidth) {
  for (const std::size_t width : {63U, 64U, 65U, 128U}) {
    Tape tape;
    const Variable x = tape.input(irregular({3, width}));
    const Tensor sums = cumsum(x, 0).value();
    for (std::size_t i = 0; i < width; ++i) {
      EXPECT_EQ(sums(0, i), x.value()(0, i));
      EXPECT_NEAR(sums(2, i), x.value()(0, i) + x.value()(1, i) + x.value()(2, i), 1e-6);
    }
  }
}

}  // namespace
