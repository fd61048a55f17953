#include "tests/test.hpp"

namespace rowgrad::kernels {
namespace {

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
  struct Case {
    Shape a, b, result;
    std::vector<std::size_t> extents;
  };
  for (const Case& item : std::vector<Case>{{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {24}},
                                            {{2, 3, 4}, {4}, {2, 3, 4}, {4, 6}},
                                            {{2, 3, 4}, {3, 4}, {2, 3, 4}, {12, 2}},
                                            {{2, 3, 4}, {2, 1, 1}, {2, 3, 4}, {12, 2}},
                                            {{2, 3, 4}, {3, 1}, {2, 3, 4}, {4, 3, 2}},
                                            {{2, 3, 4}, {}, {2, 3, 4}, {24}},
                                            {{1, 3, 1}, {2, 1, 4}, {2, 3, 4}, {4, 3, 2}},
                                            {{}, {}, {}, {1}}}) {
    const BroadcastLoops loops = broadcast_loops(item.result, {&item.a, &item.b});
    EXPECT_EQ(loops.extents, item.extents) << bracketed(item.a) << " and " << bracketed(item.b);
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

TEST(Broadcast, SumToKeepsTheMemoryOfWhatNeedsNoSum) {
  Tensor x = counting({2, 3});
  const real* memory = x.data();
  EXPECT_EQ(sum_to(std::move(x), {2, 3}).data(), memory);
}

}  // namespace
}  // namespace rowgrad::kernels
