#include "tests/test.hpp"

namespace {

using Pairs = std::vector<std::pair<std::int32_t, std::int32_t>>;

// The definition: count all pairs, merge the most frequent one everywhere, again and again. In a
// std::map the lower pair comes first, and only a higher count replaces it.
Pairs trained_by_definition(std::string_view text, std::size_t count) {
  std::vector<std::vector<std::int32_t>> pieces;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = gpt2_piece_end(text, begin);
    auto& piece = pieces.emplace_back();
    for (const char byte : text.substr(begin, end - begin))
      piece.push_back(static_cast<unsigned char>(byte));
  }
  Pairs merges;
  while (merges.size() < count) {
    std::map<std::pair<std::int32_t, std::int32_t>, int> counts;
    for (const auto& piece : pieces)
      for (std::size_t i = 0; i + 1 < piece.size(); ++i) ++counts[{piece[i], piece[i + 1]}];
    if (counts.empty()) break;
    auto best = counts.begin();
    for (auto it = counts.begin(); it != counts.end(); ++it)
      if (it->second > best->second) best = it;
    for (auto& piece : pieces)
      for (std::size_t i = 0; i + 1 < piece.size(); ++i) {
        if (std::pair(piece[i], piece[i + 1]) != best->first) continue;
        piece[i] = static_cast<std::int32_t>(256 + merges.size());
        piece.erase(piece.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    merges.push_back(best->first);
  }
  return merges;
}

TEST(BytePairTraining, PrefersLowerIdsAmongPairsOfOneCount) {
  struct Case {
    std::vector<std::string_view> texts;
    Pairs pairs;
  };
  const std::vector<Case> cases = {
      // aa 4 times; then 256·a, ab twice each, of which a·b has the lower left id; …
      {{"aaabdaaabac"},
       {{'a', 'a'}, {'a', 'b'}, {256, 257}, {'a', 'c'}, {'d', 258}, {258, 260}, {261, 259}}},
      {{"bcd"}, {{'b', 'c'}, {256, 'd'}}},  // the lower left id
      {{"dcb"}, {{'c', 'b'}, {'d', 256}}},
      {{"bd!bc"}, {{'b', 'c'}, {'b', 'd'}}},  // then the lower right id
      {{"a b c"}, {{' ', 'b'}, {' ', 'c'}}},  // pieces are not merged with each other
      {{"bc", "", "ad", "ad", "bcd"}, {{'a', 'd'}, {'b', 'c'}, {257, 'd'}}},
      {{"a"}, {}},
      {{""}, {}},
  };
  for (const Case& c : cases) EXPECT_EQ(learn_merges(c.texts, 1000), c.pairs) << c.texts[0];
}

TEST(BytePairTraining, FindsWhatTheDefinitionFinds) {
  std::mt19937 random(1);
  std::string bytes;
  for (int i = 0; i < 600; ++i) bytes += static_cast<char>(random());
  std::vector<std::string> texts = {
      std::string(1000, 'a'),            // neighbours that are the same pair
      "a b  c   d    e     f " + bytes,  // few pairs twice
      "été ète мир 世界 мир 🙂🙂🙂🙂 été 世界世",
      "ababababa bababab aabbaabb abaabaaba ababa",
  };
  for (int i = 0; i < 20; ++i) {
    std::string& text = texts.emplace_back();
    for (int j = 0; j < 400; ++j) text += "aaabbc  "[random() % 8];
  }
  for (const std::string& text : texts)
    EXPECT_EQ(learn_merges({text}, 200), trained_by_definition(text, 200)) << text;
}

TEST(BytePairTraining, TakesOneLongWordInTimeInProportion) {
  // Twice as long, one merge more: each merge halves the run.
  const int doublings = 20;
  Pairs expected{{'a', 'a'}};
  for (int i = 1; i < doublings; ++i) expected.emplace_back(255 + i, 255 + i);
  const std::string run(std::size_t{1} << doublings, 'a');
  EXPECT_EQ(learn_merges({run}, 1000), expected);

  std::mt19937 random(1);
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "ACGT"[random() % 4];
  EXPECT_EQ(learn_merges({text}, 500).size(), 500U);
}

TEST(BytePairTraining, StopsWhenTheTextHasNoMorePairs) {
  const auto tokenizer = BytePairTokenizer::train("abc abc", {.size = 1000});
  EXPECT_EQ(tokenizer.size(), 256U + 3U + 1U);
  EXPECT_EQ(tokenizer.vocabulary().find_special(kEndOfText), 259);
  for (std::int32_t id = 0; id < 259; ++id)
    EXPECT_EQ(values(tokenizer.encode(tokenizer.token(id))), std::vector<std::int32_t>{id});
}

TEST(BytePairTraining, TakesASpecialTokenInTheTextAsTheEndOfAText) {
  const auto tokenizer =
      BytePairTokenizer::train("xy<end>xy", {.size = 1000, .special_tokens = {"<end>"}});
  EXPECT_EQ(tokenizer.size(), 258U);
  EXPECT_EQ(tokenizer.token(256), "xy");
}

TEST(BytePairTraining, RefusesASizeBelowTheBytesAndTheSpecialTokens) {
  EXPECT_EQ(BytePairTokenizer::train("abc", {.size = 257}).size(), 257U);
  for (const std::size_t size : {std::size_t{0}, std::size_t{256}, std::size_t{1} << 22}) {
    EXPECT_INVALID("BytePairTokenizer: size " + std::to_string(size) +
                       " is not between 257 (256 bytes and 1 special tokens) and 2097152",
                   BytePairTokenizer::train("abc", {.size = size}));
  }
}

}  // namespace
