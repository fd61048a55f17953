// Tests that layers reject sizes whose product overflows or exceeds memory.

#include "tests/test.hpp"

namespace {

TEST(Sizes, OverflowingSizesAreRejected) {
  constexpr std::size_t kLarge = std::size_t{1} << 61;  // 8 · 2^61 wraps to 0
  Random random(1);
  const std::string before = bits_of(random.state_dict());
  const std::string refused =
      ": shape [2305843009213693952, 8] has more elements than memory could ever hold";
  EXPECT_INVALID("Embedding" + refused, Embedding(kLarge, 8, random));
  EXPECT_INVALID("EmbeddingBag" + refused, EmbeddingBag(kLarge, 8, random));
  EXPECT_INVALID("PositionalEmbedding" + refused, PositionalEmbedding(kLarge, 8, random));
  EXPECT_INVALID("Sinusoidal" + refused, Sinusoidal(kLarge, 8));
  EXPECT_INVALID("Linear" + refused, Linear(8, kLarge, random));
  EXPECT_INVALID("NextTokenModel" + refused,
                 NextTokenModel({.vocabulary = 4, .width = 8, .window = kLarge}, random));
  EXPECT_INVALID(
      "LayerNorm: shape [4611686018427387904] has more elements than memory could ever hold",
      LayerNorm(2 * kLarge));
  EXPECT_TRUE(bits_of(random.state_dict()) == before);
  ConcatPrevious concat(kLarge);
  Tape tape;
  EXPECT_INVALID(
      "causal_unfold: shape [3, 8, 2305843009213693952] has more elements than memory could ever "
      "hold",
      concat.forward(tape.constant(zeros({3, 8}))));
}

}  // namespace
