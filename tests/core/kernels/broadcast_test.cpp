#include "tests/test.hpp"

namespace rowgrad::kernels {
namespace {

struct BroadcastCase {
  Shape a;
  Shape b;
  Shape result;
};

// NumPy's answers.
const std::vector<BroadcastCase> kCases{
    {{}, {}, {}},
    {{}, {3}, {3}},
    {{1}, {}, {1}},
    {{4}, {4}, {4}},
    {{1, 1}, {5}, {1, 5}},
    {{3, 1}, {1, 4}, {3, 4}},
    {{3, 1}, {4}, {3, 4}},
    {{2, 3, 4}, {4}, {2, 3, 4}},
    {{2, 3, 4}, {3, 1}, {2, 3, 4}},
    {{2, 3, 4}, {2, 1, 1}, {2, 3, 4}},
    {{2, 1, 4}, {3, 1}, {2, 3, 4}},
    {{2, 1, 4}, {2, 3, 4}, {2, 3, 4}},
    {{1, 3, 1}, {2, 1, 4}, {2, 3, 4}},
    {{2, 1, 3, 1}, {1, 4, 1, 5}, {2, 4, 3, 5}},
    {{2, 1, 3, 1, 2}, {4, 1, 1, 1}, {2, 4, 3, 1, 2}},
    {{3, 37}, {37}, {3, 37}},
    {{37, 3}, {37, 1}, {37, 3}},
    {{0}, {1}, {0}},
    {{0, 3}, {3}, {0, 3}},
    {{2, 0}, {2, 1}, {2, 0}},
    {{3, 0, 2}, {1, 1, 2}, {3, 0, 2}},
    {{1, 0}, {4, 1}, {4, 0}},
};

std::string name(const BroadcastCase& item) {
  return concat(bracketed(item.a), " and ", bracketed(item.b));
}

TEST(Broadcast, FindsTheCommonShapeFromEitherSide) {
  for (const BroadcastCase& item : kCases) {
    EXPECT_EQ(broadcast_shape("op", item.a, item.b), item.result) << name(item);
    EXPECT_EQ(broadcast_shape("op", item.b, item.a), item.result) << name(item);
  }
}

TEST(Broadcast, NamesOpShapesAndAxisWhereThereIsNone) {
  EXPECT_INVALID("add: shapes [2, 3] and [4] cannot be broadcast together: 3 against 4 on axis -1",
                 broadcast_shape("add", {2, 3}, {4}));
  EXPECT_INVALID(
      "add: shapes [2, 3, 4] and [5, 1, 4] cannot be broadcast together: 2 against 5 on axis -3",
      broadcast_shape("add", {2, 3, 4}, {5, 1, 4}));
  EXPECT_INVALID("add: shapes [0] and [2] cannot be broadcast together: 0 against 2 on axis -1",
                 broadcast_shape("add", {0}, {2}));
}

TEST(Broadcast, JoinsAxesThatMemoryJoins) {
  struct Loops {
    BroadcastCase shapes;
    std::vector<std::size_t> extents;
  };
  for (const Loops& item : std::vector<Loops>{{{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}, {24}},
                                              {{{2, 3, 4}, {4}, {2, 3, 4}}, {4, 6}},
                                              {{{2, 3, 4}, {3, 4}, {2, 3, 4}}, {12, 2}},
                                              {{{2, 3, 4}, {2, 1, 1}, {2, 3, 4}}, {12, 2}},
                                              {{{2, 3, 4}, {3, 1}, {2, 3, 4}}, {4, 3, 2}},
                                              {{{2, 3, 4}, {}, {2, 3, 4}}, {24}},
                                              {{{1, 3, 1}, {2, 1, 4}, {2, 3, 4}}, {4, 3, 2}},
                                              {{{}, {}, {}}, {1}}}) {
    const BroadcastLoops loops =
        broadcast_loops(item.shapes.result, {&item.shapes.a, &item.shapes.b});
    EXPECT_EQ(loops.extents, item.extents) << name(item.shapes);
    for (const std::size_t stride : loops.strides.front()) EXPECT_LE(stride, 1U);
  }
}

TEST(Broadcast, MayWriteOverTheSideThatHasTheCommonShape) {
  const auto difference = [](const Simd& a, const Simd& b) { return a - b; };
  const Tensor a = counting({3, 19});
  const Tensor b = counting({19});
  Tensor left = a;
  broadcast_into(left, difference, left, b);
  EXPECT_EQ(left, broadcast_map("op", difference, a, b));
  Tensor right = a;
  broadcast_into(right, difference, b, right);
  EXPECT_EQ(right, broadcast_map("op", difference, b, a));
}

TEST(Broadcast, RepeatsAndSumToAddsUpWhatWasRepeated) {
  for (const BroadcastCase& item : kCases) {
    for (const Shape& small : {item.a, item.b}) {
      const Tensor x = counting(small);
      Tensor repeated = empty(item.result);
      broadcast_into(
          repeated, [](const Simd& v) { return v; }, x);
      expect_exact(
          repeated, item.result, [&](const Index& i) { return at(x, i); }, name(item));

      // Walk the large shape and add each number to where it came from. Small whole numbers: exact.
      const Tensor large = counting(item.result);
      Tensor expected = zeros(small);
      for (std::size_t k = 0; k < large.size(); ++k) {
        const Index index = index_at(item.result, k);
        std::size_t to = 0;
        for (std::size_t axis = 0; axis < small.size(); ++axis)
          to =
              to * small[axis] + (small[axis] == 1 ? 0 : index[index.size() - small.size() + axis]);
        expected.data()[to] += large.data()[k];
      }
      EXPECT_EQ(sum_to(large, small), expected) << name(item);
      EXPECT_EQ(sum_to(Tensor(large), small), expected) << name(item);
    }
  }
}

TEST(Broadcast, SumToKeepsTheMemoryOfWhatNeedsNoSum) {
  Tensor x = counting({2, 3});
  const real* memory = x.data();
  EXPECT_EQ(sum_to(std::move(x), {2, 3}).data(), memory);
}

}  // namespace
}  // namespace rowgrad::kernels
