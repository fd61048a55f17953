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

TEST(BytePairTraining, MergesTheMostFrequentPairAgainAndAgain) {
  // aaabdaaabac: aa 4 times; then 256·a, ab twice each, of which a·b has the lower left id; …
  EXPECT_EQ(learn_merges({"aaabdaaabac"}, 3), (Pairs{{'a', 'a'}, {'a', 'b'}, {256, 257}}));
  const auto tokenizer =
      BytePairTokenizer::train("aaabdaaabac", {.size = 259, .special_tokens = {}});
  EXPECT_EQ(values(tokenizer.encode("aaabdaaabac")),
            (std::vector<std::int32_t>{258, 'd', 258, 'a', 'c'}));
  EXPECT_EQ(tokenizer.token(258), "aaab");
}

TEST(BytePairTraining, PrefersLowerIdsAmongPairsOfOneCount) {
  struct Case {
    std::string text;
    Pairs pairs;
  };
  const std::vector<Case> cases = {
      {"bcd", {{'b', 'c'}, {256, 'd'}}},  // the lower left id
      {"dcb", {{'c', 'b'}, {'d', 256}}},
      {"bd!bc", {{'b', 'c'}, {'b', 'd'}}},  // then the lower right id
      {"ab", {{'a', 'b'}}},
      {"a b c", {{' ', 'b'}, {' ', 'c'}}},  // pieces are not merged with each other
      {"a", {}},
      {"", {}},
  };
  for (const Case& c : cases) EXPECT_EQ(learn_merges({c.text}, 1000), c.pairs) << c.text;
}

TEST(BytePairTraining, FindsWhatTheDefinitionFinds) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < 400; ++i) text += "aaabbc  "[random() % 8];
    EXPECT_EQ(learn_merges({text}, 80), trained_by_definition(text, 80)) << text;
  }
}

TEST(BytePairTraining, FindsWhatTheDefinitionFindsInAnyText) {
  std::mt19937 random(1);
  std::string bytes;
  for (int i = 0; i < 600; ++i) bytes += static_cast<char>(random());
  const std::vector<std::string> texts = {
      std::string(1000, 'a'),            // neighbours that are the same pair
      "a b  c   d    e     f " + bytes,  // few pairs twice
      "été ète мир 世界 мир 🙂🙂🙂🙂 été 世界世",  // characters of up to
                                                                           // four bytes
      "ababababa bababab aabbaabb abaabaaba ababa",
  };
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

TEST(BytePairTraining, CountsTheWordsOfAllTextsTogether) {
  EXPECT_EQ(learn_merges({"bc", "", "ad", "ad", "bcd"}, 10),
            (Pairs{{'a', 'd'}, {'b', 'c'}, {257, 'd'}}));
}

TEST(BytePairTraining, EncodesEveryTrainedTokenToItself) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < 600; ++i) text += "aaaaabbc"[random() % 8];
    const auto tokenizer = BytePairTokenizer::train(text, {.size = 400, .special_tokens = {}});
    for (std::int32_t id = 0; std::cmp_less(id, tokenizer.size()); ++id)
      EXPECT_EQ(values(tokenizer.encode(tokenizer.token(id))), std::vector<std::int32_t>{id});
  }
}

TEST(BytePairTraining, StopsWhenTheTextHasNoMorePairs) {
  const auto tokenizer = BytePairTokenizer::train("abc abc", {.size = 1000});
  EXPECT_EQ(tokenizer.size(), 256U + 3U + 1U);
  EXPECT_EQ(tokenizer.vocabulary().find_special(kEndOfText), 259);
  EXPECT_EQ(BytePairTokenizer::train("", {.size = 1000}).size(), 257U);
}

TEST(BytePairTraining, TakesASpecialTokenInTheTextAsTheEndOfAText) {
  const auto tokenizer =
      BytePairTokenizer::train("xy<end>xy", {.size = 1000, .special_tokens = {"<end>"}});
  EXPECT_EQ(tokenizer.size(), 258U);
  EXPECT_EQ(tokenizer.token(256), "xy");
  EXPECT_EQ(values(tokenizer.encode("xy<end>xy", {.allowed_special = {"<end>"}})),
            (std::vector<std::int32_t>{256, 257, 256}));
  EXPECT_EQ(values(tokenizer.encode("<end>")),
            (std::vector<std::int32_t>{'<', 'e', 'n', 'd', '>'}));
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
