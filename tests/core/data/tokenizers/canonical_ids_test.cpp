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
  // Of , APPLE Apple The and apple the <|endoftext|> <|unk|>.
  const WordTokenizer tokenizer = WordTokenizer::from_text("The apple, the Apple and APPLE");
  const Ids32 ids = canonical_ids(tokenizer);
  EXPECT_EQ(ids, (Ids32{0, 1, 1, 2, 3, 1, 2, 4, 5}));
  EXPECT_NO_THROW(NgramHash(tokenizer.size(), {.canonical = ids}, {0}, 0));
}

}  // namespace
