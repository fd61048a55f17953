#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/tensors.hpp"
#include <rowgrad/core/tensor/print.hpp>

namespace rowgrad {
namespace {

TEST(Print, SetsNumbersInColumns) {
  EXPECT_EQ(concat(Tensor{{1, 2.5}, {-10, 0}}), "[[  1, 2.5],\n [-10,   0]]");
  EXPECT_EQ(concat(Tensor{{{1, 2}}, {{3, 4}}}), "[[[1, 2]],\n [[3, 4]]]");
  EXPECT_EQ(concat(scalar(7)), "7");
  EXPECT_EQ(concat(zeros({0})), "[]");
  EXPECT_EQ(concat(zeros({2, 0})), "[[],\n []]");
}

TEST(Print, CutsLongTensorsShort) {
  EXPECT_EQ(concat(zeros({1001})), "[0, 0, 0, ..., 0, 0, 0]");
  EXPECT_EQ(
      concat(zeros({7, 200})),
      "[[0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0],\n ...,\n"
      " [0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0]]");
  const std::string whole = concat(zeros({1000}));
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '0'), 1000);
}

}  // namespace
}  // namespace rowgrad
