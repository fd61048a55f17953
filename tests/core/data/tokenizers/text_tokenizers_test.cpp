#include "tests/test.hpp"

namespace {

using Tokens = std::vector<std::string>;
using Words = std::vector<std::string_view>;

TEST(CharacterTokenizer, OrdersIdsByCodePoint) {
  const auto tokenizer = CharacterTokenizer::from_text("hé, 世 h\n");
  EXPECT_EQ(tokenizer.vocabulary().tokens(), (Tokens{"\n", " ", ",", "h", "é", "世"}));
  EXPECT_EQ(values(tokenizer.encode("世hé\n")), (Ids32{5, 3, 4, 0}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("é h,\n世")), "é h,\n世");
  EXPECT_TRUE(tokenizer.encode("").empty());
  EXPECT_EQ(CharacterTokenizer::from_text("").size(), 0);
}

TEST(CharacterTokenizer, EncodesUnknownCharactersAsTheUnknownToken) {
  const auto tokenizer =
      CharacterTokenizer::from_text("ab", {.special_tokens = {std::string(kUnknown)}});
  EXPECT_EQ(values(tokenizer.encode("azbß")), (Ids32{0, 2, 1, 2}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("azb")), "a<|unk|>b");
}

TEST(WordTokenizer, SplitsAtWhitespaceAndPunctuationAndDecodesWithSpaces) {
  struct Case {
    std::string_view text;
    Words words;
    std::string_view decoded;
  };
  const std::vector<Case> cases = {
      {"", {}, ""},
      {" \n\t ", {}, ""},
      {"Is this-- a test?", {"Is", "this", "--", "a", "test", "?"}, "Is this -- a test?"},
      {"a--b---c----d", {"a", "--", "b", "--", "-c", "--", "--", "d"}, "a -- b -- -c -- -- d"},
      {"it's. Never!", {"it", "'", "s", ".", "Never", "!"}, "it' s. Never!"},
      {"snake_case (x;y:z,)",
       {"snake", "_", "case", "(", "x", ";", "y", ":", "z", ",", ")"},
       "snake _ case( x; y: z,)"},
      {"a \"b\"", {"a", "\"", "b", "\""}, "a\" b\""},
      {".start", {".", "start"}, ". start"},
      {"x[1]+2*3", {"x[1]+2*3"}, "x[1]+2*3"},
      {"~a#$%&*/<=>@\\^`{|}-0\x7F", {"~a#$%&*/<=>@\\^`{|}-0\x7F"}, "~a#$%&*/<=>@\\^`{|}-0\x7F"},
      {"-a-", {"-a-"}, "-a-"},
      {"é-é--世", {"é-é", "--", "世"}, "é-é -- 世"},
      {"a\u00A0b\u3000c\x1C"
       "d\u0085e",
       {"a", "b", "c", "d", "e"},  // as in Python's str.isspace
       "a b c d e"},
      {"a\u200Bb", {"a\u200Bb"}, "a\u200Bb"},
      {"für das Café…", {"für", "das", "Café…"}, "für das Café…"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(split_words(c.text), c.words) << in_quotes(c.text);
    const auto tokenizer = WordTokenizer::from_text(c.text);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(c.text)), c.decoded);
  }
}

TEST(WordTokenizer, DropsRareWordsAndKeepsTheMostFrequent) {
  constexpr std::string_view text = "b a c b d c b a e";  // counts: b 3, a and c 2, d and e 1
  const auto tokens_of = [&](WordOptions options) {
    options.special_tokens = {"<|unk|>"};
    const auto tokenizer = WordTokenizer::from_text(text, options);
    std::vector<std::string> tokens = tokenizer.vocabulary().tokens();
    EXPECT_EQ(tokens.back(), "<|unk|>");
    tokens.pop_back();
    return tokens;
  };
  EXPECT_EQ(tokens_of({.min_count = 1}), (Tokens{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(tokens_of({.min_count = 2}), (Tokens{"a", "b", "c"}));
  EXPECT_EQ(tokens_of({.min_count = 4}), Tokens{});
  EXPECT_EQ(tokens_of({.max_tokens = 2}), Tokens{"b"});
  EXPECT_EQ(tokens_of({.max_tokens = 3}), (Tokens{"a", "b"}));
  EXPECT_EQ(tokens_of({.max_tokens = 5}), (Tokens{"a", "b", "c", "d"}));
  EXPECT_EQ(tokens_of({.max_tokens = 6}), (Tokens{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(tokens_of({.min_count = 2, .max_tokens = 9}), (Tokens{"a", "b", "c"}));
}

TEST(WordTokenizer, ConvertsWordsToLowerCase) {
  const auto tokenizer = WordTokenizer::from_text("The the ÄRA ära Σ <|UNK|>", {.lower = true});
  EXPECT_EQ(tokenizer.vocabulary().tokens(),
            (Tokens{"the", "ära", "σ", "<|endoftext|>", "<|unk|>"}));
  EXPECT_EQ(values(tokenizer.encode("THE Ära, σ")), (Ids32{0, 1, 4, 2}));
  EXPECT_EQ(values(tokenizer.encode("<|unk|>A", {.allowed_special = {"<|unk|>"}})), (Ids32{4, 4}));
  EXPECT_EQ(values(tokenizer_from_json(tokenizer.to_json())->encode("THE")), Ids32{0});
}

TEST(WordTokenizer, CanSplitOnlyAtWhitespace) {
  EXPECT_EQ(split_words(" it's\tover--now ,\n. ", true), (Words{"it's", "over--now", ",", "."}));
  for (const bool lower : {false, true}) {
    const auto tokenizer =
        WordTokenizer::from_text("It's , It's .", {.lower = lower, .whitespace_only = true});
    const std::string first = lower ? "it's" : "It's";
    EXPECT_EQ(tokenizer.vocabulary().tokens(),
              (Tokens{",", ".", first, "<|endoftext|>", "<|unk|>"}));
    const auto loaded = tokenizer_from_json(tokenizer.to_json());
    const Ids32 ids = values(loaded->encode("It's, It's ."));
    EXPECT_EQ(ids, (Ids32{4, 2, 1}));
    EXPECT_EQ(loaded->decode(ids), "<|unk|> " + first + " .");
  }
  EXPECT_INVALID("WordTokenizer: token 0 is \"a b\", expected exactly one word",
                 WordTokenizer(Vocabulary({"a b"}), false, true));
}

TEST(WordTokenizer, GivesASpecialTokenOnlyOneId) {
  const auto tokenizer = WordTokenizer::from_text("b <|endoftext|> a");
  EXPECT_EQ(tokenizer.vocabulary().tokens(), (Tokens{"a", "b", "<|endoftext|>", "<|unk|>"}));
  EXPECT_EQ(values(tokenizer.encode("b <|endoftext|>")), (Ids32{1, 3}));
  EXPECT_EQ(values(tokenizer.encode("b <|endoftext|>", {.allowed_special = {"<|endoftext|>"}})),
            (Ids32{1, 2}));
}

// Some of the invalid text follows special tokens. With `offset`, the text continues another
// string.
TEST(TextTokenizers, ReportTextThatHasNoIdWithItsOffset) {
  const auto characters = CharacterTokenizer::from_text("abé", {.special_tokens = {"<end>"}});
  const auto words = WordTokenizer::from_text("on the mat", {.special_tokens = {"<end>"}});
  const std::vector<std::string> special = {"<end>", std::string(kUnknown)};
  const auto any_character = CharacterTokenizer::from_text("a", {.special_tokens = special});
  const auto any_word = WordTokenizer::from_text("a", {.special_tokens = special});
  struct Case {
    const Tokenizer& tokenizer;
    std::string text;
    std::string message;
  };
  const std::vector<Case> cases = {
      {characters, "éa<end>z",
       "the character \"z\" at byte 108 of the text has no id in the vocabulary of 4 tokens"},
      {characters, "aß",
       "the character \"ß\" at byte 101 of the text has no id in the vocabulary of 4 tokens"},
      {any_character, "a\xFF",
       "the byte \"\\xff\" at byte 101 of the text is not part of valid UTF-8"},
      {words, "the dog",
       "the word \"dog\" at byte 104 of the text has no id in the vocabulary of 4 tokens"},
      {words, "the<end> dog",
       "the word \"dog\" at byte 109 of the text has no id in the vocabulary of 4 tokens"},
      {any_word, "a<end>on \xFF",
       "the byte \"\\xff\" at byte 109 of the text is not part of valid UTF-8"},
  };
  for (const Case& c : cases)
    EXPECT_INVALID("encode: " + c.message,
                   c.tokenizer.encode(c.text, {.allowed_special = {"<end>"}, .offset = 100}));
}

TEST(TextTokenizers, RejectInvalidTextAndVocabularies) {
  const std::string message =
      ": the byte \"\\xff\" at byte 1 of the text is not part of valid UTF-8";
  EXPECT_INVALID("CharacterTokenizer" + message, CharacterTokenizer::from_text("a\xFF"));
  EXPECT_INVALID("split_words" + message, split_words(" \xFF"));
  EXPECT_INVALID("CharacterTokenizer: token 1 is \"bc\", expected exactly one character",
                 CharacterTokenizer(Vocabulary({"a", "bc"})));
  for (const std::string token : {"two words", "a,", " a"})
    EXPECT_INVALID("WordTokenizer: token 1 is \"" + token + "\", expected exactly one word",
                   WordTokenizer(Vocabulary({"a", token})));
  EXPECT_INVALID("WordTokenizer: token 1 is \"B\", expected lower case",
                 WordTokenizer(Vocabulary({"a", "B"}), true));
  EXPECT_INVALID(
      "WordTokenizer: max_tokens is 1, expected more than the number of special tokens, 1",
      WordTokenizer::from_text("a", {.special_tokens = {"<end>"}, .max_tokens = 1}));
}

}  // namespace
