#include "tests/test.hpp"

namespace {

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
  EXPECT_INVALID(
      "encode: the character \"z\" at byte 3 of the text has no id in the vocabulary of 3 "
      "tokens",
      tokenizer.encode("éaza"));
  EXPECT_INVALID(
      "encode: the character \"ß\" at byte 1 of the text has no id in the vocabulary of 3 "
      "tokens",
      tokenizer.encode("aß"));
}

TEST(CharacterTokenizer, CountsTheBytesBeforeASpecialTokenToo) {
  const auto tokenizer = CharacterTokenizer::from_text("ab", {.special_tokens = {"<end>"}});
  EXPECT_INVALID(
      "encode: the character \"z\" at byte 6 of the text has no id in the vocabulary of 3 "
      "tokens",
      tokenizer.encode("a<end>z", {.allowed_special = {"<end>"}}));
}

TEST(CharacterTokenizer, GivesTheUnknownTokenToCharactersWithoutAnId) {
  const auto tokenizer =
      CharacterTokenizer::from_text("ab", {.special_tokens = {std::string(kUnknown)}});
  EXPECT_EQ(values(tokenizer.encode("azbß")), (std::vector<std::int32_t>{0, 2, 1, 2}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("azb")), "a<|unk|>b");
}

TEST(CharacterTokenizer, RefusesTextThatIsNotUtf8) {
  const std::string message = "the byte \"\\xff\" at byte 1 of the text is not part of valid UTF-8";
  EXPECT_INVALID("CharacterTokenizer: " + message, CharacterTokenizer::from_text("a\xFF"));
  const auto tokenizer =
      CharacterTokenizer::from_text("a", {.special_tokens = {std::string(kUnknown)}});
  EXPECT_INVALID("encode: " + message, tokenizer.encode("a\xFF"));
}

TEST(CharacterTokenizer, RefusesAVocabularyOfLongerTokens) {
  EXPECT_INVALID("CharacterTokenizer: token 1, \"bc\", is not one character",
                 CharacterTokenizer(Vocabulary({"a", "bc"})));
}

}  // namespace
