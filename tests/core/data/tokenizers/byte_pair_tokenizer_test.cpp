#include "tests/test.hpp"

namespace {

// A text of words over few letters, so that they share pairs; with runs of one letter, spaces, and
// pieces too long for the cache.
std::string made_up_text(unsigned seed, std::size_t words) {
  std::mt19937 random(seed);
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    const std::size_t letters = random() % 40 == 0 ? random() % 200 : random() % 9;
    for (std::size_t j = 0; j < letters; ++j) text += "aabbcé\xFF"[random() % 8];
    text += random() % 5 == 0 ? "  " : " ";
  }
  return text;
}

// The definition, literally: merge the pair of the lowest rank everywhere from left to right, again
// and again.
std::vector<std::int32_t> merged_by_definition(const BytePairTokenizer& tokenizer,
                                               std::string_view piece) {
  std::vector<std::int32_t> ids;
  for (const char byte : piece)
    ids.push_back(tokenizer.vocabulary().find(std::string_view(&byte, 1)).value());
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& merge : tokenizer.merges()) {
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
        ids[i] = merge.merged;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        changed = true;
      }
      if (changed) break;
    }
  }
  return ids;
}

// The same tokens with ids in any order, which need not be that of the merges.
BytePairTokenizer shuffled(const BytePairTokenizer& ordered) {
  std::mt19937 random(7);
  std::vector<std::int32_t> places(ordered.size());
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), random);
  std::vector<std::string> tokens(ordered.size());
  for (std::size_t id = 0; id < tokens.size(); ++id)
    tokens[static_cast<std::size_t>(places[id])] = ordered.vocabulary().tokens()[id];
  const std::int32_t special = ordered.vocabulary().special_ids().front();
  const Vocabulary vocabulary(tokens, {places[static_cast<std::size_t>(special)]});
  MergeTable merges(vocabulary);
  for (const auto& merge : ordered.merges())
    merges.add(ordered.token(merge.left), ordered.token(merge.right), vocabulary);
  return {vocabulary, std::move(merges)};
}

TEST(BytePairTokenizer, EncodesAsTheDefinitionSays) {
  const auto tokenizer = shuffled(BytePairTokenizer::train(made_up_text(1, 300), {.size = 400}));
  EXPECT_EQ(tokenizer.size(), 400);
  std::string text = made_up_text(2, 2000);
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(random());
  // Pieces that differ only in their lengths, and more of them than the cache holds.
  for (std::size_t length = 1; length < 30; ++length) text += std::string(length, '\0') + "a";
  for (int i = 0; i < 40'000; ++i) text += ' ' + std::to_string(i);
  std::vector<std::int32_t> expected;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = gpt2_piece_end(text, begin);
    const auto ids = merged_by_definition(tokenizer, text.substr(begin, end - begin));
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_TRUE(values(tokenizer.encode(text)) == expected);
  EXPECT_TRUE(tokenizer.decode(expected) == text);
  // With a cache that is full, or new ones of other threads.
  at_once(4, [&](std::size_t) { EXPECT_TRUE(values(tokenizer.encode(text)) == expected); });
}

TEST(BytePairTokenizer, TakesOneLongPieceInTimeInProportion) {
  const auto tokenizer = BytePairTokenizer::train(std::string(64, 'a'), {.size = 300});
  const std::string text(std::size_t{1} << 21, 'a');
  EXPECT_EQ(tokenizer.encode(text).size(), text.size() / 64);
}

std::vector<std::string> single_bytes() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

TEST(MergeTable, RefusesMergesThatContradictTheVocabulary) {
  struct Case {
    std::string left;
    std::string right;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"ab", "c",
       "byte pairs: the merge uses \"ab\", which is neither a byte nor made by an earlier merge"},
      {"a", "",
       "byte pairs: the merge uses \"\", which is neither a byte nor made by an earlier merge"},
      {"c", "d", "byte pairs: the merged token \"cd\" has no id"},
      {"b", "c", "byte pairs: the token \"bc\" is made twice"},
      {"<", ">", "byte pairs: the merged token \"<>\" has no id"},  // a special token
  };
  std::vector<std::string> tokens = single_bytes();
  tokens.insert(tokens.end(), {"ab", "bc", "abc", "<>"});
  const Vocabulary vocabulary(tokens, {259});
  MergeTable merges(vocabulary);
  merges.add("b", "c", vocabulary);
  for (const Case& c : cases) {
    EXPECT_INVALID(c.message, merges.add(c.left, c.right, vocabulary));
    EXPECT_EQ(merges.merges().size(), 1U);
  }
  tokens.erase(tokens.begin() + 0xFE);
  EXPECT_INVALID("byte pairs: the byte \"\\xfe\" has no id", MergeTable{Vocabulary(tokens)});
}

}  // namespace
