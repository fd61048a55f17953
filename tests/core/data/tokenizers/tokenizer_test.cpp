#include "tests/test.hpp"

namespace {

TEST(Vocabulary, LooksUpOrdinaryAndSpecialTokensSeparately) {
  const Vocabulary vocabulary({"b", "end", "a", "end"}, {3});
  EXPECT_EQ(vocabulary.size(), 4);
  EXPECT_EQ(vocabulary.find("end"), 1);
  EXPECT_EQ(vocabulary.find_special("end"), 3);
  EXPECT_EQ(vocabulary.find_special("a"), std::nullopt);
  EXPECT_EQ(vocabulary.find("c"), std::nullopt);
  EXPECT_EQ(vocabulary.find(""), std::nullopt);
  EXPECT_TRUE(vocabulary.is_special(3));
  EXPECT_FALSE(vocabulary.is_special(1));
}

TEST(Vocabulary, RejectsContradictoryTokens) {
  struct Case {
    std::vector<std::string> tokens;
    Ids32 special_ids;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"a", ""}, {}, "Vocabulary: token 1 is empty"},
      {{"a", "b", "a"}, {}, "Vocabulary: \"a\" has two ids, 0 and 2"},
      {{"<s>", "b", "<s>"}, {2, 0}, "Vocabulary: \"<s>\" has two ids, 0 and 2"},
      {{"a", "b"}, {2}, "Vocabulary: special id 2 is out of range: there are 2 tokens"},
      {{"a", "b"}, {-1}, "Vocabulary: special id -1 is out of range: there are 2 tokens"},
      {{"a", "b"}, {1, 1}, "Vocabulary: duplicate special id 1"},
      {{"\xFF"},
       {0},
       "Vocabulary: a special token: the byte \"\\xff\" at byte 0 of the text is not part of valid "
       "UTF-8"},
  };
  for (const Case& c : cases) EXPECT_INVALID(c.message, Vocabulary(c.tokens, c.special_ids));
}

const auto kTokenizer =
    CharacterTokenizer::from_text("abc<>", {.special_tokens = {"<a>", "<a>b", "<b>"}});
// Ids: < 0, > 1, a 2, b 3, c 4, <a> 5, <a>b 6, <b> 7

TEST(Tokenizer, EncodesSpecialTokensAsTextUnlessAllowed) {
  struct Case {
    std::string text;
    std::vector<std::string> allowed;
    Ids32 ids;
  };
  const std::vector<Case> cases = {
      {"c<a>", {}, {4, 0, 2, 1}},
      {"c<a>", {"<b>"}, {4, 0, 2, 1}},
      {"c<a>", {"<a>"}, {4, 5}},
      {"<a><b>c", {"<a>"}, {5, 0, 3, 1, 4}},
      {"<a><b>c", {"<b>", "<a>"}, {5, 7, 4}},
      {"<a>b", {"<a>", "<a>b"}, {6}},  // the longer token
      {"<a>bb<a>", {"<a>", "<a>b"}, {6, 3, 5}},
      {"<<a>>", {"<a>"}, {0, 5, 1}},
      {"<a", {"<a>"}, {0, 2}},
      {"", {"<a>"}, {}},
  };
  for (const Case& c : cases) {
    const Ids ids = kTokenizer.encode(c.text, {.allowed_special = c.allowed});
    EXPECT_EQ(values(ids), c.ids) << c.text;
    EXPECT_EQ(kTokenizer.decode(ids), c.text);
  }
}

TEST(Tokenizer, PrefersTheLongestSpecialToken) {
  constexpr int kMany = 100'000;
  std::vector<std::string> special = {"<", "<x", "<x99999", "<x>"};
  for (int i = 0; i < kMany; ++i) special.push_back("<x" + std::to_string(i) + ">");
  const auto tokenizer = CharacterTokenizer::from_text("ax", {.special_tokens = special});
  std::string text;
  Ids32 ids;
  for (int i = 0; i < kMany; i += 2) {
    text += "a<x" + std::to_string(i) + ">";
    ids.insert(ids.end(), {0, 6 + i});  // after a, x and four special tokens
  }
  text += "<x99999<x>";
  ids.insert(ids.end(), {4, 5});
  // Takes less than a tenth of a second; comparing all tokens at each position would take many
  // seconds.
  EXPECT_LT(seconds_of([&] {
              EXPECT_EQ(values(tokenizer.encode(text, {.allowed_special = special})), ids);
            }),
            5.0);
}

// Exact reservations, one for each special token, would take quadratic memory.
TEST(Tokenizer, EncodesManyDocumentsInLinearMemory) {
  const std::vector<std::string> end = {"<end>"};
  const auto text_of = [](int documents) {
    std::string text;
    for (int i = 0; i < documents; ++i) text += "жжжжж жжж, жжжжжжжжжжж<end>";
    return text;
  };
  const std::string sample = "ж ,<end>";
  const auto character = CharacterTokenizer::from_text(sample, {.special_tokens = end});
  const auto word = WordTokenizer::from_text("жжжжж жжж, жжжжжжжжжжж", {.special_tokens = end});
  const auto pairs = BytePairTokenizer::train(text_of(1), {.size = 260, .special_tokens = end});
  for (const Tokenizer* tokenizer : std::vector<const Tokenizer*>{&character, &word, &pairs}) {
    const auto bytes_for = [&](int documents) {
      const std::string text = text_of(documents);
      const FailingAllocations counting(FailingAllocations::kNever);
      tokenizer->encode(text, {.allowed_special = end});
      return FailingAllocations::bytes();
    };
    bytes_for(1);  // may fill caches
    // Four times the text takes four times the memory. The factor 2 allows for unused capacity.
    EXPECT_LT(bytes_for(4000), 4 * 2 * bytes_for(1000));
  }
}

TEST(Tokenizer, DecodesIdsOfAnyRank) {
  const Ids batch = {{2, 3, 4}, {4, 3, 5}};
  EXPECT_EQ(kTokenizer.decode(batch), "abccb<a>");
  EXPECT_EQ(kTokenizer.decode(Ids32{}), "");
  Ids one = Ids::from_shape({});
  one() = 7;
  EXPECT_EQ(kTokenizer.decode(one), "<b>");
}

TEST(Tokenizer, RejectsUnknownIdsAndSpecialTokens) {
  EXPECT_INVALID("token: id 8 is out of range: the vocabulary has 8 tokens",
                 kTokenizer.decode(Ids{{0, 8}}));
  EXPECT_INVALID("token: id -1 is out of range: the vocabulary has 8 tokens", kTokenizer.token(-1));
  EXPECT_INVALID(
      "encode: allowed_special has \"a\", which is not a special token of this tokenizer",
      kTokenizer.encode("abc", {.allowed_special = {"<a>", "a"}}));
}

}  // namespace
