#include <vector>

#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/id_values.hpp"
#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>

namespace rowgrad {
namespace {

using testing::error_of;
using testing::values;

TEST(CharacterTokenizer, NumbersTheCharactersOfATextByCodePoint) {
  const auto tokenizer = CharacterTokenizer::from_text("hé, 世 h\n");
  EXPECT_EQ(tokenizer.vocabulary().tokens(),
            (std::vector<std::string>{"\n", " ", ",", "h", "é", "世"}));
  EXPECT_EQ(tokenizer.size(), 6);
  EXPECT_EQ(values(tokenizer.encode("世hé\n")), (std::vector<std::int32_t>{5, 3, 4, 0}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("é h,\n世")), "é h,\n世");
}

TEST(CharacterTokenizer, EncodesAnEmptyTextToNoIds) {
  const Ids ids = CharacterTokenizer::from_text("a").encode("");
  EXPECT_EQ(ids.dimension(), 1U);
  EXPECT_EQ(ids.size(), 0U);
  EXPECT_EQ(CharacterTokenizer::from_text("").size(), 0);
}

TEST(CharacterTokenizer, NamesACharacterThatHasNoId) {
  const auto tokenizer = CharacterTokenizer::from_text("abé");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { tokenizer.encode("éaza"); }),
            "encode: the character \"z\" at byte 3 of the text has no id in the vocabulary of 3 "
            "tokens");
  EXPECT_EQ(error_of<std::invalid_argument>([&] { tokenizer.encode("aß"); }),
            "encode: the character \"ß\" at byte 1 of the text has no id in the vocabulary of 3 "
            "tokens");
}

TEST(CharacterTokenizer, CountsTheBytesBeforeASpecialTokenToo) {
  const auto tokenizer = CharacterTokenizer::from_text("ab", {.special_tokens = {"<end>"}});
  EXPECT_EQ(error_of<std::invalid_argument>(
                [&] { tokenizer.encode("a<end>z", {.allowed_special = {"<end>"}}); }),
            "encode: the character \"z\" at byte 6 of the text has no id in the vocabulary of 3 "
            "tokens");
}

TEST(CharacterTokenizer, GivesTheUnknownTokenToCharactersWithoutAnId) {
  const auto tokenizer =
      CharacterTokenizer::from_text("ab", {.special_tokens = {std::string(kUnknown)}});
  EXPECT_EQ(values(tokenizer.encode("azbß")), (std::vector<std::int32_t>{0, 2, 1, 2}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("azb")), "a<|unk|>b");
}

TEST(CharacterTokenizer, RefusesTextThatIsNotUtf8) {
  const std::string message = "the byte \"\\xff\" at byte 1 of the text is not part of valid UTF-8";
  EXPECT_EQ(error_of<std::invalid_argument>([] { CharacterTokenizer::from_text("a\xFF"); }),
            "CharacterTokenizer: " + message);
  const auto tokenizer =
      CharacterTokenizer::from_text("a", {.special_tokens = {std::string(kUnknown)}});
  EXPECT_EQ(error_of<std::invalid_argument>([&] { tokenizer.encode("a\xFF"); }),
            "encode: " + message);
}

TEST(CharacterTokenizer, RefusesAVocabularyOfLongerTokens) {
  EXPECT_EQ(error_of<std::invalid_argument>([] {
              CharacterTokenizer(Vocabulary({"a", "bc"}));
            }),
            "CharacterTokenizer: token 1, \"bc\", is not one character");
}

}  // namespace
}  // namespace rowgrad
