#include "tests/test.hpp"

namespace {

TEST(CanonicalIds, FoldSpellingsThatCountAsOne) {
  EXPECT_EQ(folded(" Apple"), "apple");
  EXPECT_EQ(folded("APPLE"), "apple");
  EXPECT_EQ(folded("Café"), "cafe");
  EXPECT_EQ(folded("Cafe\xCC\x81"), "cafe");  // the accent as a mark of its own
  EXPECT_EQ(folded("ﬁne ½"), "fine 1⁄2");     // a ligature and a fraction, in compatibility form
  EXPECT_EQ(folded("ÀÉ Ω"), "ae ω");
  EXPECT_EQ(folded("a\t\n  b\xC2\xA0"), "a b");
  EXPECT_EQ(folded("\n\n"), " ");
  EXPECT_EQ(folded(" "), " ");
  EXPECT_EQ(folded(""), "");
  EXPECT_EQ(folded("\xCC\x81"), "\xCC\x81");  // nothing but an accent
  EXPECT_EQ(folded("A\xFF"), "A\xFF");        // no UTF-8
  EXPECT_EQ(folded("straße"), "straße");      // lower case, not case folding
}

TEST(CanonicalIds, AreCountedInTheOrderOfTheirFirstTokens) {
  const WordTokenizer tokenizer = WordTokenizer::from_text("The apple, the Apple and APPLE");
  const std::vector<std::int32_t> ids = canonical_ids(tokenizer);
  ASSERT_EQ(ids.size(), tokenizer.size());
  std::map<std::string, std::int32_t> seen;
  for (std::size_t id = 0; id < ids.size(); ++id) {
    const std::string text = folded(tokenizer.token(static_cast<std::int32_t>(id)));
    EXPECT_EQ(ids[id], seen.emplace(text, static_cast<std::int32_t>(seen.size())).first->second);
  }
  EXPECT_LT(seen.size(), ids.size());
  EXPECT_NO_THROW(NgramHash(tokenizer.size(), {.canonical = ids}, {0}, 0));
}

}  // namespace
