// Sizes whose product exceeds any memory, in every layer that multiplies sizes.

#include "tests/test.hpp"

namespace {

constexpr std::size_t kLarge = std::size_t{1} << 61;  // times 8 it is 0
constexpr const char* kRefused =
    ": shape [2305843009213693952, 8] has more numbers than memory could ever hold";

TEST(Sizes, AreRefusedByNameWhereTheirProductWraps) {
  Random random(1);
  const std::string before = bits_of(random.state_dict());
  const auto message = [](const auto& make) { return error_of<std::invalid_argument>(make); };
  EXPECT_EQ(message([&] { Embedding(kLarge, 8, random); }), concat("Embedding", kRefused));
  EXPECT_EQ(message([&] { Embedding(kLarge, 8, random, {.padding_idx = -1}); }),
            concat("Embedding", kRefused));
  EXPECT_EQ(message([&] { EmbeddingBag(kLarge, 8, random); }), concat("EmbeddingBag", kRefused));
  EXPECT_EQ(message([&] { PositionalEmbedding(kLarge, 8, random); }),
            concat("PositionalEmbedding", kRefused));
  EXPECT_EQ(message([&] { Sinusoidal(kLarge, 8); }), concat("Sinusoidal", kRefused));
  EXPECT_EQ(message([&] { Linear(8, kLarge, random); }), concat("Linear", kRefused));
  EXPECT_THROW(Linear(kLarge, 8, random), std::invalid_argument);
  EXPECT_THROW(Mlp({8, kLarge, 8}, random), std::invalid_argument);
  EXPECT_TRUE(bits_of(random.state_dict()) == before);
}

TEST(Sizes, OfALookBackAreRefusedBeforeTheWork) {
  Random random(1);
  EXPECT_INVALID(
      "NextTokenModel: shape [2305843009213693953, 8] has more numbers than memory could "
      "ever hold",
      NextTokenModel({.vocabulary = 4, .width = 8, .look_back = kLarge + 1}, random));
  LookBack look_back(kLarge);
  Tape tape;
  EXPECT_INVALID(
      "look_back: shape [3, 8, 2305843009213693952] has more numbers than memory could ever "
      "hold",
      look_back.forward(tape.constant(zeros({3, 8}))));
}

}  // namespace
