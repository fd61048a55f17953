#include "tests/test.hpp"

namespace {

// Returns words of a few different bytes, so that they share pairs. Some words are too long for the
// cache, some bytes are not valid UTF-8, and there are runs of spaces.
std::string random_text(unsigned seed, std::size_t words) {
  std::mt19937 random(seed);
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    const std::size_t letters = random() % 40 == 0 ? random() % 200 : random() % 9;
    for (std::size_t j = 0; j < letters; ++j) text += "aabbcé\xFF"[random() % 8];
    text += random() % 5 == 0 ? "  " : " ";
  }
  return text;
}

// tests/fuzz/targets/byte_pairs.cpp compares encodings of short texts with the definition.
TEST(BytePairTokenizer, RestoresAnyTextEvenWithAFullCache) {
  const auto tokenizer = BytePairTokenizer::train(random_text(1, 300), {.size = 400});
  EXPECT_EQ(tokenizer.size(), 400);
  std::string text = random_text(2, 2000);
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(random());
  // Appends pieces that differ only in length, and enough pieces to overflow some sets of the
  // cache.
  for (std::size_t length = 1; length < 30; ++length) text += std::string(length, '\0') + "a";
  for (int i = 0; i < 40'000; ++i) text += ' ' + std::to_string(i);
  const Ids expected = tokenizer.encode(text);
  EXPECT_TRUE(tokenizer.decode(expected) == text);
  EXPECT_TRUE(Ids(tokenizer.encode(text)) == expected);  // with pieces in the cache
}

TEST(BytePairTokenizer, EncodesOneLongPieceInLinearTime) {
  const auto tokenizer = BytePairTokenizer::train(std::string(64, 'a'), {.size = 300});
  const std::string text(std::size_t{1} << 21, 'a');
  // Takes half a second; scanning all pairs for each merge would take hours.
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(tokenizer.encode(text).size(), text.size() / 64); }), 10.0);
}

using Pairs = std::vector<std::pair<std::int32_t, std::int32_t>>;

// tests/fuzz/targets/byte_pairs.cpp compares merges of short texts with the definition.
TEST(BytePairTraining, BreaksTiesByLowerIds) {
  struct Case {
    std::vector<std::string_view> texts;
    Pairs pairs;
  };
  const std::vector<Case> cases = {
      // The first pair is a·a, 4 times. Then 256·a and a·b occur twice each, and a·b has the lower
      // left id, and so on.
      {{"aaabdaaabac"},
       {{'a', 'a'}, {'a', 'b'}, {256, 257}, {'a', 'c'}, {'d', 258}, {258, 260}, {261, 259}}},
      {{"bcd"}, {{'b', 'c'}, {256, 'd'}}},  // ties go to the lower left id
      {{"dcb"}, {{'c', 'b'}, {'d', 256}}},
      {{"bd!bc"}, {{'b', 'c'}, {'b', 'd'}}},  // then to the lower right id
      {{"a b c"}, {{' ', 'b'}, {' ', 'c'}}},  // pieces are not merged with each other
      {{"bc", "", "ad", "ad", "bcd"}, {{'a', 'd'}, {'b', 'c'}, {257, 'd'}}},
      {{"a"}, {}},
      {{""}, {}},
  };
  for (const Case& c : cases) EXPECT_EQ(learn_merges(c.texts, 1000), c.pairs) << c.texts[0];
}

TEST(BytePairTraining, LearnsFromOneLongWordInLinearTime) {
  // Each merge halves the run, so doubling its length adds one merge.
  const int doublings = 20;
  Pairs expected{{'a', 'a'}};
  for (int i = 1; i < doublings; ++i) expected.emplace_back(255 + i, 255 + i);
  const std::string run(std::size_t{1} << doublings, 'a');
  // Each call takes about half a second.
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(learn_merges({run}, 1000), expected); }), 10.0);

  std::mt19937 random(1);
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "ACGT"[random() % 4];
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(learn_merges({text}, 500).size(), 500U); }), 10.0);
}

TEST(BytePairTraining, StopsWhenNoPairsAreLeft) {
  const auto tokenizer = BytePairTokenizer::train("abc abc", {.size = 1000});
  EXPECT_EQ(tokenizer.size(), 256U + 3U + 1U);
  EXPECT_EQ(tokenizer.vocabulary().find_special(kEndOfText), 259);
  for (std::int32_t id = 0; id < 259; ++id)
    EXPECT_EQ(values(tokenizer.encode(tokenizer.token(id))), Ids32{id});
  const auto two_texts =
      BytePairTokenizer::train("xy<end>xy", {.size = 1000, .special_tokens = {"<end>"}});
  EXPECT_EQ(two_texts.size(), 258U);
  EXPECT_EQ(two_texts.token(256), "xy");
}

TEST(BytePairTraining, RejectsSizesOutOfRange) {
  EXPECT_EQ(BytePairTokenizer::train("abc", {.size = 257}).size(), 257U);
  for (const std::size_t size : {std::size_t{0}, std::size_t{256}, std::size_t{1} << 22}) {
    EXPECT_INVALID("BytePairTokenizer: size is " + std::to_string(size) +
                       ", expected 257 (256 bytes and the special tokens) to 2097152",
                   BytePairTokenizer::train("abc", {.size = size}));
  }
}

TEST(MergeTable, RejectsMergesThatContradictTheVocabulary) {
  struct Case {
    std::string left;
    std::string right;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"ab", "c",
       "MergeTable: the merge uses \"ab\", expected a byte or a token made by an earlier merge"},
      {"a", "",
       "MergeTable: the merge uses \"\", expected a byte or a token made by an earlier merge"},
      {"c", "d", "MergeTable: the merged token \"cd\" has no id"},
      {"b", "c", "MergeTable: the token \"bc\" is already made by an earlier merge"},
      {"<", ">", "MergeTable: the merged token \"<>\" has no id"},  // a special token
  };
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), {"ab", "bc", "abc", "<>"});
  const Vocabulary vocabulary(tokens, {259});
  MergeTable merges(vocabulary);
  merges.add("b", "c", vocabulary);
  for (const auto& [id, made] : std::map<std::int32_t, bool>{
           {-1, false}, {0, true}, {256, false}, {257, true}, {260, false}, {1 << 30, false}})
    EXPECT_EQ(merges.makes(id), made) << id;
  for (const Case& c : cases) {
    EXPECT_INVALID(c.message, merges.add(c.left, c.right, vocabulary));
    EXPECT_EQ(merges.merges().size(), 1U);
  }
  tokens.erase(tokens.begin() + 0xFE);
  EXPECT_INVALID("MergeTable: the byte \"\\xfe\" has no id", MergeTable{Vocabulary(tokens)});
}

}  // namespace
