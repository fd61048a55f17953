#include "tests/test.hpp"

namespace {

using Words = std::vector<std::string_view>;

constexpr std::string_view kSentence = "The cat sat on the mat";

TEST(SplitWords, SplitsAtWhiteSpaceAndPunctuation) {
  struct Case {
    std::string_view text;
    Words words;
  };
  const std::vector<Case> cases = {
      {"", {}},
      {" \n\t ", {}},
      {"Hello, world.", {"Hello", ",", "world", "."}},
      {"Is this-- a test?", {"Is", "this", "--", "a", "test", "?"}},
      {"a--b---c----d", {"a", "--", "b", "--", "-c", "--", "--", "d"}},
      {"it's", {"it", "'", "s"}},
      {"snake_case (x;y:z)!", {"snake", "_", "case", "(", "x", ";", "y", ":", "z", ")", "!"}},
      {"\"a\"", {"\"", "a", "\""}},
      {"x[1]+2*3", {"x[1]+2*3"}},
      {"~a#$%&*/<=>@\\^`{|}-0\x7F", {"~a#$%&*/<=>@\\^`{|}-0\x7F"}},
      {"-a-", {"-a-"}},
      {"é-é--世", {"é-é", "--", "世"}},
      {"a\u00A0b\u3000c\x1C"
       "d\u0085e",
       {"a", "b", "c", "d", "e"}},  // as str.isspace has it
      {"a\u200Bb", {"a\u200Bb"}},
      {"für das Café…", {"für", "das", "Café…"}},
  };
  for (const Case& c : cases) EXPECT_EQ(split_words(c.text), c.words) << in_quotes(c.text);
}

TEST(SplitWords, RefusesTextThatIsNotUtf8) {
  EXPECT_INVALID("split_words: the byte \"\\xff\" at byte 3 of the text is not part of valid UTF-8",
                 split_words("ab \xFF"));
}

TEST(WordTokenizer, SortsWordsAndAppendsTheSpecialTokens) {
  const auto tokenizer = WordTokenizer::from_text(kSentence);
  EXPECT_EQ(tokenizer.vocabulary().tokens(),
            (std::vector<std::string>{"The", "cat", "mat", "on", "sat", "the", "<|endoftext|>",
                                      "<|unk|>"}));
  EXPECT_EQ(values(tokenizer.encode("the dog sat")), (std::vector<std::int32_t>{5, 7, 4}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(kSentence)), kSentence);
}

TEST(WordTokenizer, NamesAWordThatHasNoId) {
  const auto tokenizer = WordTokenizer::from_text(kSentence, {.special_tokens = {"<end>"}});
  EXPECT_INVALID(
      "encode: the word \"dog\" at byte 4 of the text has no id in the vocabulary of 7 "
      "tokens",
      tokenizer.encode("the dog"));
  EXPECT_INVALID(
      "encode: the word \"dog\" at byte 9 of the text has no id in the vocabulary of 7 "
      "tokens",
      tokenizer.encode("the<end> dog", {.allowed_special = {"<end>"}}));
}

TEST(WordTokenizer, NamesThePlaceOfInvalidUtf8InTheWholeText) {
  const auto tokenizer = WordTokenizer::from_text(kSentence);
  EXPECT_INVALID("encode: the byte \"\\xff\" at byte 119 of the text is not part of valid UTF-8",
                 tokenizer.encode("cat<|endoftext|>on \xFF",
                                  {.allowed_special = {"<|endoftext|>"}, .offset = 100}));
}

TEST(WordTokenizer, LeavesRareWordsOutAndKeepsTheMostFrequentOnes) {
  constexpr std::string_view text = "b a c b d c b a e";  // b 3, a and c 2, d and e 1
  const auto words = [&](WordOptions options) {
    options.special_tokens = {"<|unk|>"};
    const auto tokenizer = WordTokenizer::from_text(text, options);
    std::vector<std::string> tokens = tokenizer.vocabulary().tokens();
    EXPECT_EQ(tokens.back(), "<|unk|>");
    tokens.pop_back();
    return tokens;
  };
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(words({.min_count = 1}), (Tokens{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(words({.min_count = 2}), (Tokens{"a", "b", "c"}));
  EXPECT_EQ(words({.min_count = 4}), Tokens{});
  EXPECT_EQ(words({.max_tokens = 2}), Tokens{"b"});
  EXPECT_EQ(words({.max_tokens = 3}), (Tokens{"a", "b"}));
  EXPECT_EQ(words({.max_tokens = 5}), (Tokens{"a", "b", "c", "d"}));
  EXPECT_EQ(words({.max_tokens = 6}), (Tokens{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(words({.min_count = 2, .max_tokens = 9}), (Tokens{"a", "b", "c"}));
  EXPECT_INVALID("WordTokenizer: max_tokens 1 leaves no word an id beside 1 special tokens",
                 words({.max_tokens = 1}));
  const auto strict = WordTokenizer::from_text(text, {.special_tokens = {}, .min_count = 2});
  EXPECT_THROW(strict.encode("a d"), std::invalid_argument);
}

TEST(WordTokenizer, TakesWordsInLowerCase) {
  const auto tokenizer = WordTokenizer::from_text("The the ÄRA ära Σ <|UNK|>", {.lower = true});
  EXPECT_EQ(tokenizer.vocabulary().tokens(),
            (std::vector<std::string>{"the", "ära", "σ", "<|endoftext|>", "<|unk|>"}));
  EXPECT_EQ(values(tokenizer.encode("THE Ära, σ")), (std::vector<std::int32_t>{0, 1, 4, 2}));
  EXPECT_EQ(values(tokenizer.encode("<|unk|>A", {.allowed_special = {"<|unk|>"}})),
            (std::vector<std::int32_t>{4, 4}));
  const auto again = tokenizer_from_json(tokenizer.to_json());
  EXPECT_EQ(again->to_json(), tokenizer.to_json());
  EXPECT_EQ(values(again->encode("THE")), std::vector<std::int32_t>{0});
  EXPECT_INVALID("WordTokenizer: token 1, \"B\", is not in lower case",
                 WordTokenizer(Vocabulary({"a", "B"}), true));
}

TEST(WordTokenizer, GivesAWordThatSpellsASpecialTokenNoSecondId) {
  const auto tokenizer = WordTokenizer::from_text("b <|endoftext|> a");
  EXPECT_EQ(tokenizer.vocabulary().tokens(),
            (std::vector<std::string>{"a", "b", "<|endoftext|>", "<|unk|>"}));
  EXPECT_EQ(values(tokenizer.encode("b <|endoftext|>")), (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(values(tokenizer.encode("b <|endoftext|>", {.allowed_special = {"<|endoftext|>"}})),
            (std::vector<std::int32_t>{1, 2}));
}

TEST(WordTokenizer, DecodesWithBlanksAsAReaderExpects) {
  struct Case {
    std::string_view text;
    std::string_view decoded;
  };
  const std::vector<Case> cases = {
      {"", ""},
      {"one,two ;  three", "one, two; three"},
      {"Yes: no? Never!", "Yes: no? Never!"},
      {"it's so--really.", "it' s so -- really."},
      {"he said \"no\" (twice)", "he said\" no\"( twice)"},
      {"snake_case", "snake _ case"},
      {".start", ". start"},
  };
  for (const Case& c : cases) {
    const auto tokenizer = WordTokenizer::from_text(c.text);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(c.text)), c.decoded);
  }
}

TEST(WordTokenizer, RefusesAVocabularyOfTokensThatAreNotOneWord) {
  for (const std::string token : {"two words", "a,", " a"}) {
    EXPECT_INVALID("WordTokenizer: token 1, \"" + token + "\", is not one word",
                   WordTokenizer(Vocabulary({"a", token})));
  }
}

}  // namespace
