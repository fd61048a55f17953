#include "tests/test.hpp"

namespace {

TEST(CanonicalIds, FoldSpellingsOfOneWord) {
  EXPECT_EQ(fold(" Apple"), "apple");
  EXPECT_EQ(fold("APPLE"), "apple");
  EXPECT_EQ(fold("Café"), "cafe");
  EXPECT_EQ(fold("Cafe\xCC\x81"), "cafe");  // the accent as a combining mark
  EXPECT_EQ(fold("ﬁne ½"), "fine 1⁄2");     // a ligature and a fraction, in compatibility form
  EXPECT_EQ(fold("ÀÉ Ω"), "ae ω");
  EXPECT_EQ(fold("a\t\n  b\xC2\xA0"), "a b");
  EXPECT_EQ(fold("\n\n"), " ");
  EXPECT_EQ(fold(" "), " ");
  EXPECT_EQ(fold(""), "");
  EXPECT_EQ(fold("\xCC\x81"), "\xCC\x81");  // only an accent
  EXPECT_EQ(fold("A\xFF"), "A\xFF");        // not UTF-8
  EXPECT_EQ(fold("straße"), "straße");      // lower case, not case folding
}

TEST(CanonicalIds, CountInOrderOfFirstAppearance) {
  // Tokens: , APPLE Apple The and apple the <|endoftext|> <|unk|>
  const WordTokenizer tokenizer = WordTokenizer::from_text("The apple, the Apple and APPLE");
  const Ids32 ids = canonical_ids(tokenizer);
  EXPECT_EQ(ids, (Ids32{0, 1, 1, 2, 3, 1, 2, 4, 5}));
  EXPECT_NO_THROW(NgramHash(tokenizer.size(), {.canonical = ids}, {0}, 0));
}

}  // namespace
