#include "tests/test.hpp"

namespace {

TEST(ByteText, WritesBytesAsGpt2Does) {
  EXPECT_EQ(printable_from_bytes(" the\n"), "ĠtheĊ");
  EXPECT_EQ(printable_from_bytes(std::string_view("\0!~\x7F", 4)), "Ā!~ġ");
  EXPECT_EQ(printable_from_bytes("\xA0\xA1\xAC\xAD\xAE\xFF"), "ł¡¬Ń®ÿ");
}

TEST(ByteText, GivesEveryByteBackFromItsOwnPrintableCharacter) {
  std::set<std::string> seen;
  for (int i = 0; i < 256; ++i) {
    const std::string byte(1, static_cast<char>(i));
    const std::string printable = printable_from_bytes(byte);
    EXPECT_EQ(decode_utf8(printable, 0).bytes, printable.size());
    EXPECT_TRUE(seen.insert(printable).second);
    EXPECT_EQ(bytes_from_printable(printable), byte);
  }
}

TEST(ByteText, RefusesCharactersThatStandForNoByte) {
  for (const std::string text : {" ", "a b", "\n", "\u00AD", "\u0144", "世", "\xFF"}) {
    EXPECT_ERROR_WITH(std::invalid_argument, "has a character that stands for no byte",
                      bytes_from_printable(text))
        << in_quotes(text);
  }
}

}  // namespace
