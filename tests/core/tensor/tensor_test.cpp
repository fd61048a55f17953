#include "tests/test.hpp"

namespace {

constexpr std::size_t kLarge = std::size_t{1} << 31;

TEST(ElementCount, RejectsShapesTooLargeForMemory) {
  EXPECT_EQ(element_count({kLarge, kLarge / 8}), kLarge * (kLarge / 8));  // 2^62 bytes of double
  const std::vector<Shape> impossible{
      {2 * kLarge, 2 * kLarge},            // 2^64
      {kLarge * kLarge + 2, 4},            // wraps to 8
      {kLarge, kLarge / 4},                // 2^63 bytes of double
      {kLarge, 0, kLarge},                 // strides would wrap
      {~std::size_t{0}},                   // −1 as a size
      {3, ~std::size_t{0} / 3, 2, 1, 5}};  // 2^64 − 1 after two factors
  for (const Shape& shape : impossible) {
    EXPECT_INVALID(
        concat("op: shape ", bracketed(shape), " has more elements than memory could ever hold"),
        element_count(shape, "op"));
    EXPECT_THROW(empty(shape), std::invalid_argument);
    EXPECT_THROW(full(shape, 1), std::invalid_argument);
    EXPECT_THROW(zeros(shape), std::invalid_argument);
    Random random(1);
    EXPECT_THROW(random.normal(shape), std::invalid_argument);
    EXPECT_THROW(random.uniform(shape), std::invalid_argument);
  }
}

TEST(ElementCount, IsCheckedForTensorsPassedToTheLibrary) {
  // xtensor multiplies extents without checks, so this tensor has eight elements.
  const Tensor wrapped = Tensor::from_shape({kLarge * kLarge + 2, 4});
  ASSERT_EQ(wrapped.size(), 8U);
  Tape tape;
  EXPECT_THROW(tape.constant(wrapped), std::invalid_argument);
  EXPECT_THROW(tape.input(wrapped), std::invalid_argument);
  EXPECT_THROW(Parameter("weight", wrapped), std::invalid_argument);
}

TEST(Tensor, PrintsInColumnsAndAbbreviates) {
  EXPECT_EQ(concat(Tensor{{1, 2.5}, {-10, 0}}), "{{  1. ,   2.5},\n {-10. ,   0. }}");
  EXPECT_EQ(concat(scalar(7)), " 7.");
  EXPECT_EQ(concat(zeros({1001})), "{ 0.,  0.,  0., ...,  0.,  0.,  0.}");
}

}  // namespace
