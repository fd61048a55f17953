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

TEST(BytePairTokenizer, EncodesAsTheDefinitionSays) {
  const auto tokenizer = BytePairTokenizer::train(made_up_text(1, 300), {.size = 400});
  EXPECT_EQ(tokenizer.size(), 400);
  const std::string text = made_up_text(2, 2000);
  std::vector<std::int32_t> expected;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = gpt2_piece_end(text, begin);
    const auto ids = merged_by_definition(tokenizer, text.substr(begin, end - begin));
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(values(tokenizer.encode(text)), expected);
  EXPECT_EQ(values(tokenizer.encode(text)), expected) << "with a warm cache";
}

TEST(BytePairTokenizer, GivesAnyBytesBack) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  const auto tokenizer = BytePairTokenizer::train("the theme of the thesis", {.size = 280});
  const std::vector<std::string> texts = {"",
                                          "the thesis",
                                          every_byte,
                                          made_up_text(3, 500),
                                          std::string(100'000, 'a'),
                                          std::string(30, '\0') + "the"};
  for (const std::string& text : texts)
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << in_quotes(text);
}

// The ids of the vocabulary need not be in the order of the merges.
TEST(BytePairTokenizer, EncodesWithIdsInAnyOrder) {
  const auto ordered = BytePairTokenizer::train(made_up_text(1, 300), {.size = 400});
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
  const BytePairTokenizer shuffled(vocabulary, std::move(merges));

  const std::string text = made_up_text(5, 2000);
  std::vector<std::int32_t> expected = values(ordered.encode(text));
  for (std::int32_t& id : expected) id = places[static_cast<std::size_t>(id)];
  EXPECT_EQ(values(shuffled.encode(text)), expected);
  EXPECT_EQ(shuffled.decode(shuffled.encode(text)), text);
}

TEST(BytePairTokenizer, GivesRandomBytesBack) {
  const auto tokenizer = BytePairTokenizer::train(made_up_text(1, 300), {.size = 400});
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < 5000; ++i) text += static_cast<char>(random());
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << "seed " << seed;
  }
}

TEST(BytePairTokenizer, TakesOneLongPieceInTimeInProportion) {
  const auto tokenizer = BytePairTokenizer::train(std::string(64, 'a'), {.size = 300});
  const std::string text(std::size_t{1} << 21, 'a');
  EXPECT_EQ(tokenizer.encode(text).size(), text.size() / 64);
}

TEST(BytePairTokenizer, KeepsPiecesApartThatDifferOnlyInLength) {
  const auto tokenizer = BytePairTokenizer::train("", {.size = 256, .special_tokens = {}});
  for (std::size_t length = 1; length < 30; ++length) {
    EXPECT_EQ(tokenizer.encode(std::string(length, '\0')).size(), length);
    EXPECT_EQ(tokenizer.encode(std::string(length, '\0') + "a").size(), length + 1);
  }
}

TEST(BytePairTokenizer, EncodesMorePiecesThanTheCacheHolds) {
  const auto tokenizer = BytePairTokenizer::train("", {.size = 256, .special_tokens = {}});
  std::string text;
  for (int i = 0; i < 40'000; ++i) {
    text += ' ';
    text += std::to_string(i);
  }
  for (int round = 0; round < 2; ++round) EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(BytePairTokenizer, EncodesInManyThreadsAtOnce) {
  const auto tokenizer = BytePairTokenizer::train(made_up_text(1, 300), {.size = 400});
  const std::string text = made_up_text(4, 3000);
  const std::vector<std::int32_t> expected = values(tokenizer.encode(text));
  std::vector<std::vector<std::int32_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] { result = values(tokenizer.encode(text)); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

TEST(BytePairTokenizer, MayBeCopiedAndMoved) {
  auto tokenizer = BytePairTokenizer::train("abab", {.size = 257, .special_tokens = {}});
  tokenizer.encode("ab");
  const BytePairTokenizer copy = tokenizer;
  const BytePairTokenizer moved = std::move(tokenizer);
  for (const BytePairTokenizer* each : {&copy, &moved})
    EXPECT_EQ(values(each->encode("abab")), (std::vector<std::int32_t>{256, 256}));
}

std::vector<std::string> single_bytes() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return tokens;
}

TEST(BytePairTokenizer, RefusesAVocabularyThatEncodingCannotReach) {
  std::vector<std::string> tokens = single_bytes();
  tokens.insert(tokens.end(), {"ab", "abc", "<end>"});
  const Vocabulary vocabulary(tokens, {258});
  MergeTable merges(vocabulary);
  merges.add("a", "b", vocabulary);
  EXPECT_INVALID(
      "BytePairTokenizer: token 257, \"abc\", is not special, no byte, and made by no merge",
      BytePairTokenizer(vocabulary, merges));
  merges.add("ab", "c", vocabulary);
  EXPECT_EQ(values(BytePairTokenizer(vocabulary, merges).encode("abcab")),
            (std::vector<std::int32_t>{257, 256}));
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
}

TEST(MergeTable, RefusesAVocabularyWithoutEveryByte) {
  std::vector<std::string> tokens = single_bytes();
  tokens.erase(tokens.begin() + 0xFE);
  EXPECT_INVALID("byte pairs: the byte \"\\xfe\" has no id", MergeTable{Vocabulary(tokens)});
}

}  // namespace
