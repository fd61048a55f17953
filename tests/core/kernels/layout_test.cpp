#include "tests/test.hpp"
#include <rowgrad/core/kernels/layout.hpp>

namespace rowgrad::kernels {
namespace {

void expect_permuted(const Shape& shape, const std::vector<std::size_t>& axes) {
  const Tensor x = counting(shape);
  Shape permuted(shape.size());
  for (std::size_t i = 0; i < axes.size(); ++i) permuted[i] = shape[axes[i]];
  expect_exact(
      permute(x, axes), permuted,
      [&](const Index& index) {
        Index source(shape.size());
        for (std::size_t i = 0; i < axes.size(); ++i) source[axes[i]] = index[i];
        return at(x, source);
      },
      concat(bracketed(shape), " by ", bracketed(axes)));
}

TEST(Permute, PutsEveryAxisWhereItIsToldInRanksZeroToFive) {
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{2, 3, 4}, Shape{2, 3, 1, 4},
                             Shape{2, 3, 2, 1, 3}, Shape{3, 0, 2}}) {
    std::vector<std::size_t> axes(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    do expect_permuted(shape, axes);
    while (std::next_permutation(axes.begin(), axes.end()));
  }
}

TEST(Permute, SharesLargeTensorsOutAmongThreads) {
  const Threads scope(2);
  expect_permuted({300, 301}, {1, 0});
  expect_permuted({40, 50, 60}, {0, 2, 1});
  expect_permuted({40, 50, 60}, {1, 0, 2});
}

TEST(CopyBlocks, CopiesBlocksAndNothingBetweenThem) {
  const Tensor from = counting({3, 4});
  Tensor to = zeros({3, 5});
  copy_blocks(from.data() + 1, 4, to.data() + 2, 5, 2, 3);
  EXPECT_EQ(to, tensor({3, 5}, {0, 0, 2, 3, 0, 0, 0, 6, 7, 0, 0, 0, 10, 11, 0}));
  copy_blocks(from.data(), 4, to.data(), 5, 0, 3);
  copy_blocks(from.data(), 4, to.data(), 5, 2, 0);
  EXPECT_EQ(to, tensor({3, 5}, {0, 0, 2, 3, 0, 0, 0, 6, 7, 0, 0, 0, 10, 11, 0}));
}

}  // namespace
}  // namespace rowgrad::kernels
