#include "tests/test.hpp"

namespace {

TEST(Vocabulary, LooksOrdinaryAndSpecialTokensUpApart) {
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

TEST(Vocabulary, RefusesTokensThatContradictEachOther) {
  struct Case {
    std::vector<std::string> tokens;
    std::vector<std::int32_t> special_ids;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"a", ""}, {}, "Vocabulary: token 1 is empty"},
      {{"a", "b", "a"}, {}, "Vocabulary: \"a\" has two ids, 0 and 2"},
      {{"<s>", "b", "<s>"}, {2, 0}, "Vocabulary: \"<s>\" has two ids, 0 and 2"},
      {{"a", "b"}, {2}, "Vocabulary: special id 2 is outside the 2 tokens"},
      {{"a", "b"}, {-1}, "Vocabulary: special id -1 is outside the 2 tokens"},
      {{"a", "b"}, {1, 1}, "Vocabulary: special id 1 is given twice"},
      {{"\xFF"},
       {0},
       "Vocabulary: a special token: the byte \"\\xff\" at byte 0 of the text is not part of valid "
       "UTF-8"},
  };
  for (const Case& c : cases) EXPECT_INVALID(c.message, Vocabulary(c.tokens, c.special_ids));
}

}  // namespace
