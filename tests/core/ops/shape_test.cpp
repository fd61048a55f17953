#include "tests/test.hpp"

namespace {

// --- Reshape ------------------------------------------------------------------------------------

TEST(Reshape, KeepsTheNumbersInRowMajorOrder) {
  struct Case {
    Shape from;
    Shape to;
  };
  for (const auto& [from, to] : std::vector<Case>{{{}, {1, 1}},
                                                  {{1}, {}},
                                                  {{2, 3}, {3, 2}},
                                                  {{2, 3}, {6}},
                                                  {{12}, {2, 1, 3, 2}},
                                                  {{0, 4}, {2, 0}}}) {
    Tape tape;
    EXPECT_EQ(reshape(tape.input(counting(from)), to).value(), counting(to));
    expect_gradients([to = to](Inputs in) { return reshape(in[0], to); }, {irregular(from)});
  }
}

TEST(Reshape, RefusesAnotherNumberOfNumbers) {
  Tape tape;
  const Variable x = tape.input(zeros({2, 3}));
  EXPECT_INVALID("reshape: [2, 3] has 6 numbers, [4] would have 4", reshape(x, {4}));
  EXPECT_INVALID("reshape: [2, 3] has 6 numbers, [6, 0] would have 0", reshape(x, {6, 0}));
  // 2^64 + 8 numbers, which wrap to 8.
  EXPECT_INVALID(
      "reshape: shape [4611686018427387906, 4] has more numbers than memory could ever hold",
      reshape(tape.input(zeros({8})), {(std::size_t{1} << 62) + 2, 4}));
}

// --- Permute and transpose ----------------------------------------------------------------------

void expect_permuted(const Shape& shape, const std::vector<int>& axes) {
  const Tensor x = counting(shape);
  Shape permuted(shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    permuted[i] = shape[static_cast<std::size_t>(axes[i])];
  Tape tape;
  expect_exact(
      permute(tape.input(x), axes).value(), permuted,
      [&](const Index& index) {
        Index source(shape.size());
        for (std::size_t i = 0; i < axes.size(); ++i)
          source[static_cast<std::size_t>(axes[i])] = index[i];
        return at(x, source);
      },
      concat(bracketed(shape), " by ", bracketed(axes)));
}

TEST(Permute, PutsEveryAxisWhereItIsToldInRanksZeroToFive) {
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{2, 3, 2}, Shape{2, 1, 3, 2},
                             Shape{2, 1, 2, 3, 2}, Shape{2, 0, 3}}) {
    std::vector<int> axes(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    do {
      expect_permuted(shape, axes);
      if (shape.size() < 5 || axes.front() == 3)  // a fifth of rank 5 is plenty
        expect_gradients([&](Inputs in) { return permute(in[0], axes); }, {irregular(shape)},
                         concat(bracketed(shape), " by ", bracketed(axes)));
    } while (std::next_permutation(axes.begin(), axes.end()));
  }
}

TEST(Permute, SharesLargeTensorsOutAmongThreads) {
  const Threads scope(2);
  expect_permuted({300, 301}, {1, 0});
  expect_permuted({40, 50, 60}, {0, 2, 1});
  expect_permuted({40, 50, 60}, {1, 0, 2});
}

TEST(Permute, CountsAxesFromTheEndToo) {
  Tape tape;
  const Variable x = tape.input(counting({2, 3, 4}));
  EXPECT_EQ(permute(x, {-1, 0, -2}).value(), permute(x, {2, 0, 1}).value());
}

TEST(Permute, RefusesWhatIsNoPermutation) {
  Tape tape;
  const Variable x = tape.input(zeros({2, 3}));
  EXPECT_INVALID("permute: axes [0] name 1 of the 2 axes of [2, 3]", permute(x, {0}));
  EXPECT_INVALID("permute: axis -1 is named twice", permute(x, {1, -1}));
  EXPECT_INVALID("permute: axis 2 is outside a rank of 2", permute(x, {0, 2}));
}

TEST(Transpose, ExchangesTwoAxes) {
  Tape tape;
  const Variable matrix = tape.input(counting({2, 3}));
  EXPECT_EQ(transpose(matrix).value(), tensor({3, 2}, {1, 4, 2, 5, 3, 6}));
  const Variable x = tape.input(counting({2, 3, 4}));
  EXPECT_EQ(transpose(x).value(), permute(x, {0, 2, 1}).value());
  EXPECT_EQ(transpose(x, 0, -1).value(), permute(x, {2, 1, 0}).value());
  EXPECT_EQ(transpose(x, 1, 1).value(), x.value());
  expect_gradients([](Inputs in) { return transpose(in[0], 0, 2); }, {irregular({2, 3, 4})});
  EXPECT_INVALID("transpose: axis -2 is outside a rank of 1", transpose(tape.input(zeros({3}))));
}

// --- Concatenate --------------------------------------------------------------------------------

struct Parts {
  std::vector<Shape> shapes;
  int axis;
  Shape result;
};

const std::vector<Parts> kParts{
    {{{3}}, 0, {3}},
    {{{2}, {1}, {3}}, 0, {6}},
    {{{2, 3}, {1, 3}}, 0, {3, 3}},
    {{{2, 3}, {2, 1}}, 1, {2, 4}},
    {{{2, 3}, {2, 1}}, -1, {2, 4}},
    {{{2, 1, 3}, {2, 2, 3}, {2, 1, 3}}, 1, {2, 4, 3}},
    {{{1, 2, 2}, {2, 2, 2}}, -3, {3, 2, 2}},
    {{{2, 0}, {2, 3}}, 1, {2, 3}},
    {{{0, 2}, {0, 1}}, 1, {0, 3}},
    {{{0}, {0}}, 0, {0}},
};

TEST(Concatenate, PutsPartsOneAfterAnotherAlongAnAxis) {
  for (const Parts& item : kParts) {
    std::vector<Tensor> parts;
    Tape tape;
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < item.shapes.size(); ++i) {
      parts.push_back(irregular(item.shapes[i], static_cast<int>(i)));
      variables.push_back(tape.input(parts.back()));
    }
    const int rank = static_cast<int>(item.result.size());
    const auto axis = static_cast<std::size_t>(item.axis < 0 ? item.axis + rank : item.axis);
    expect_exact(concatenate(variables, item.axis).value(), item.result, [&](Index index) {
      std::size_t part = 0;
      for (; index[axis] >= parts[part].shape()[axis]; ++part)
        index[axis] -= parts[part].shape()[axis];
      return at(parts[part], index);
    });
    expect_gradients(
        [&](Inputs in) {
          return concatenate({in.begin(), in.end()}, item.axis);
        },
        parts);
  }
}

TEST(Concatenate, TakesTheSameVariableTwice) {
  Tape tape;
  const Variable x = tape.input(counting({2, 2}));
  EXPECT_EQ(concatenate({x, x}, 1).value(), tensor({2, 4}, {1, 2, 1, 2, 3, 4, 3, 4}));
  expect_gradients([](Inputs in) { return concatenate({in[0], in[0]}, 0); }, {irregular({2, 3})});
}

TEST(Concatenate, RefusesPartsThatDoNotFit) {
  Tape tape;
  const auto variable = [&](const Shape& shape) { return tape.input(zeros(shape)); };
  EXPECT_INVALID("concatenate: there is nothing to concatenate", concatenate({}, 0));
  EXPECT_INVALID("concatenate: shapes [2, 3] and [3, 2] differ on another axis than 0",
                 concatenate({variable({2, 3}), variable({3, 2})}, 0));
  EXPECT_INVALID("concatenate: shapes [2, 3] and [2] differ in rank",
                 concatenate({variable({2, 3}), variable({2})}, 0));
  EXPECT_INVALID("concatenate: axis 1 is outside a rank of 1",
                 concatenate({variable({2}), variable({2})}, 1));
  EXPECT_THROW(concatenate({variable({}), variable({})}, 0), std::invalid_argument);
}

// --- Slice --------------------------------------------------------------------------------------

struct Slice {
  Shape shape;
  int axis;
  std::ptrdiff_t begin;
  std::ptrdiff_t end;
  std::size_t step;
  std::vector<std::size_t> taken;  // the entries of the axis, as Python would take them
};

constexpr std::size_t kHugeStep = std::numeric_limits<std::size_t>::max();

const std::vector<Slice> kSlices{
    {{7}, 0, 0, kAxisEnd, 1, {0, 1, 2, 3, 4, 5, 6}},
    {{7}, 0, 2, 5, 1, {2, 3, 4}},
    {{7}, 0, -3, -1, 1, {4, 5}},
    {{7}, -1, -7, 7, 2, {0, 2, 4, 6}},
    {{7}, 0, 1, kAxisEnd, 3, {1, 4}},
    {{7}, 0, 1, kAxisEnd, 100, {1}},
    {{7}, 0, 1, kAxisEnd, kHugeStep, {1}},
    {{7}, 0, 3, 3, 1, {}},
    {{7}, 0, 7, kAxisEnd, 1, {}},
    {{7}, 0, -3, 4, 2, {}},
    {{7}, 0, 0, 0, 2, {}},
    {{0}, 0, 0, kAxisEnd, 1, {}},
    {{3, 4}, 0, 1, 3, 1, {1, 2}},
    {{3, 4}, 1, 1, 3, 1, {1, 2}},
    {{3, 4}, 1, 0, kAxisEnd, 2, {0, 2}},
    {{3, 4}, 0, 0, kAxisEnd, 2, {0, 2}},
    {{2, 5, 3}, 1, 1, -1, 2, {1, 3}},
    {{2, 5, 3}, 2, -1, kAxisEnd, 1, {2}},
    {{2, 5, 3}, -3, 0, 1, 1, {0}},
    {{2, 0, 3}, 0, 1, 2, 1, {1}},
    {{2, 0, 3}, 2, 0, kAxisEnd, 2, {0, 2}},
};

TEST(Slice, TakesEntriesOfAnAxis) {
  for (const Slice& item : kSlices) {
    const std::string what = concat(bracketed(item.shape), " axis ", item.axis, ", ", item.begin,
                                    " to ", item.end, " by ", item.step);
    const Tensor x = counting(item.shape);
    const int rank = static_cast<int>(item.shape.size());
    const auto axis = static_cast<std::size_t>(item.axis < 0 ? item.axis + rank : item.axis);
    Shape sliced = item.shape;
    sliced[axis] = item.taken.size();
    Tape tape;
    expect_exact(
        slice(tape.input(x), item.axis, item.begin, item.end, item.step).value(), sliced,
        [&](Index index) {
          index[axis] = item.taken[index[axis]];
          return at(x, index);
        },
        what);
    expect_gradients(
        [&](Inputs in) { return slice(in[0], item.axis, item.begin, item.end, item.step); },
        {irregular(item.shape)}, what);
  }
}

TEST(Slice, AddsUpTheGradientsOfAllSlicesAndOfOtherOps) {
  expect_gradients(
      [](Inputs in) {
        const Variable& x = in[0];
        return slice(x, 1, 0, 3) * slice(x, 1, 1, 4) + slice(x, 1, 0, kAxisEnd, 2) +
               slice(x * x, 1, 2);
      },
      {irregular({2, 5, 3})});
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

TEST(Slice, RefusesRangesThatLeaveTheAxis) {
  Tape tape;
  const Variable x = tape.input(zeros({2, 7}));
  EXPECT_INVALID("slice: entries 2 to 8 do not lie in an axis of 7", slice(x, 1, 2, 8));
  EXPECT_INVALID("slice: entries -8 to 7 do not lie in an axis of 7", slice(x, 1, -8, kAxisEnd));
  EXPECT_INVALID("slice: entries 2 to 1 do not lie in an axis of 2", slice(x, 0, 2, 1));
  EXPECT_INVALID("slice: step is 0", slice(x, 1, 0, 7, 0));
  EXPECT_INVALID("slice: axis 2 is outside a rank of 2", slice(x, 2, 0, 1));
  EXPECT_THROW(slice(tape.input(scalar(1)), 0, 0), std::invalid_argument);
}

// --- Split, stack, squeeze ----------------------------------------------------------------------

TEST(Split, CutsAnAxisIntoPiecesOfALength) {
  Tape tape;
  const Variable x = tape.input(counting({2, 5}));
  const std::vector<Variable> parts = split(x, 2, -1);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[1].value(), tensor({2, 2}, {3, 4, 8, 9}));
  EXPECT_EQ(parts[2].shape(), Shape({2, 1}));
  EXPECT_EQ(concatenate(parts, 1).value(), x.value());
  EXPECT_EQ(split(x, 7, 0).size(), 1U);
  EXPECT_INVALID("split: the length is 0", split(x, 0, 0));
  EXPECT_THROW(split(x, 1, 2), std::invalid_argument);
}

TEST(Stack, PutsVariablesAlongANewAxis) {
  for (const int axis : {0, 1, 2, -1, -3}) {
    const auto stacked = [axis](Inputs in) { return stack({in.begin(), in.end()}, axis); };
    const std::vector<Tensor> inputs{irregular({2, 3}, 1), irregular({2, 3}, 2)};
    expect_gradients(stacked, inputs);
  }
  Tape tape;
  const Variable a = tape.input(tensor({2}, {1, 2}));
  const Variable b = tape.input(tensor({2}, {3, 4}));
  EXPECT_EQ(stack({a, b}).value(), tensor({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(stack({a, b}, 1).value(), tensor({2, 2}, {1, 3, 2, 4}));
  EXPECT_INVALID("stack: shapes [2] and [3] differ", stack({a, tape.input(zeros({3}))}));
  EXPECT_THROW(stack({a, b}, 2), std::invalid_argument);
}

TEST(Squeeze, TakesAwayAnAxisOfLengthOne) {
  Tape tape;
  const Variable x = tape.input(counting({2, 1, 3}));
  EXPECT_EQ(squeeze(x, 1).shape(), Shape({2, 3}));
  EXPECT_EQ(squeeze(x, -2).value(), counting({2, 3}));
  EXPECT_EQ(unsqueeze(x, 0).shape(), Shape({1, 2, 1, 3}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), Shape({2, 1, 3, 1}));
  EXPECT_INVALID("squeeze: axis 2 of [2, 1, 3] is not of length 1", squeeze(x, 2));
  EXPECT_THROW(unsqueeze(x, 4), std::invalid_argument);
}

// Slices of the rows before, with zeros in front, side by side: the oldest first.
Variable joined_slices(const Variable& x, std::size_t steps) {
  const std::size_t length = x.shape()[1];
  std::vector<Variable> parts;
  for (std::size_t back = steps; back-- > 0;) {
    const std::size_t missing = std::min(back, length);
    Shape before = x.shape();
    before[1] = missing;
    const auto seen = static_cast<std::ptrdiff_t>(length - missing);
    parts.push_back(concatenate({x.tape().constant(zeros(before)), slice(x, 1, 0, seen)}, 1));
  }
  return concatenate(parts, -1);
}

TEST(LookBackOp, HasTheBitsOfJoinedSlicesForAnyNumberOfThreads) {
  for (const Shape& shape : {Shape{2, 4, 3}, Shape{3, 700, 20}, Shape{2, 1, 3}, Shape{0, 4, 3},
                             Shape{2, 0, 3}, Shape{2, 4, 0}})
    for (const std::size_t steps : {1, 2, 3, 6}) {
      const auto run = [&](const auto& op) {
        Tape tape;
        const Variable x = tape.input(irregular(shape));
        const Variable y = op(x, steps);
        tape.backward(y, irregular(y.shape(), 9));
        return std::pair(y.value(), tape.gradient(x).dense());
      };
      const auto expected = run(joined_slices);
      for (const int threads : {1, 3}) {
        const Threads scope(threads);
        EXPECT_EQ(run(look_back), expected) << steps << " steps, " << threads << " threads";
      }
    }
}

TEST(LookBackOp, RefusesWhatDoesNotFit) {
  Tape tape;
  const auto message = [&](const Shape& shape, std::size_t steps) {
    return error_of<std::invalid_argument>([&] { look_back(tape.input(zeros(shape)), steps); });
  };
  EXPECT_EQ(message({3, 2}, 0), "look_back: steps must be above 0");
  EXPECT_EQ(message({3}, 2), "look_back: x has shape [3], expected [..., length, width]");
}

}  // namespace
