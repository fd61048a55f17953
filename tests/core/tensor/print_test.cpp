#include "tests/test.hpp"

namespace {

TEST(Print, SetsNumbersInColumns) {
  EXPECT_EQ(concat(Tensor{{1, 2.5}, {-10, 0}}), "{{  1. ,   2.5},\n {-10. ,   0. }}");
  EXPECT_EQ(concat(scalar(7)), " 7.");
}

TEST(Print, CutsLongTensorsShort) {
  EXPECT_EQ(concat(zeros({1001})), "{ 0.,  0.,  0., ...,  0.,  0.,  0.}");
}

}  // namespace
