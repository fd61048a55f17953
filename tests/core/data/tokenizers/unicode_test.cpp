#include "tests/test.hpp"

namespace {

TEST(Unicode, ClassifiesLettersNumbersAndWhitespace) {
  using enum CharacterClass;
  const std::vector<std::pair<CharacterClass, std::u32string>> cases = {
      {letter, U"azAZªµßéŁмдไह世한\u02B0\U0001D49C\U00020000"},
      {number, U"09²½٣०\u2160①\U0001D7D8"},
      {white_space, U"\t\n\v\f\r \u0085\u00A0\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000"},
      // A Mongolian vowel separator and a zero-width space are not White_Space.
      {other, U"\x1F!_~\u0301\u180E\u200B\u200D€🙂\uE000\uFFFF\U0010FFFF"},
  };
  for (const auto& [expected, characters] : cases)
    for (const char32_t character : characters)
      EXPECT_EQ(character_class(character), expected)
          << std::hex << static_cast<unsigned>(character);
  EXPECT_EQ(character_class(kInvalidCodePoint), other);
}

TEST(Unicode, ConvertsToLowerCase) {
  EXPECT_EQ(lower_case("Aa1 ÄÖß ΣΔ МЫ \U00010400 世"), "aa1 äöß σδ мы \U00010428 世");
  EXPECT_EQ(lower_case(""), "");
}

TEST(ByteText, WritesBytesAsGpt2Does) {
  EXPECT_EQ(printable_from_bytes(" the\n"), "ĠtheĊ");
  EXPECT_EQ(printable_from_bytes(std::string_view("\0!~\x7F", 4)), "Ā!~ġ");
  EXPECT_EQ(printable_from_bytes("\xA0\xA1\xAC\xAD\xAE\xFF"), "ł¡¬Ń®ÿ");
}

TEST(ByteText, RoundTripsEveryByte) {
  std::set<std::string> seen;
  for (int i = 0; i < 256; ++i) {
    const std::string byte(1, static_cast<char>(i));
    const std::string printable = printable_from_bytes(byte);
    EXPECT_EQ(decode_utf8(printable, 0).bytes, printable.size());
    EXPECT_TRUE(seen.insert(printable).second);
    EXPECT_EQ(bytes_from_printable(printable), byte);
  }
}

TEST(ByteText, RejectsCharactersThatDoNotRepresentAByte) {
  for (const std::string text : {" ", "a b", "\n", "\u00AD", "\u0144", "世", "\xFF"})
    EXPECT_INVALID(concat(in_quotes(text), " has a character that does not represent a byte"),
                   bytes_from_printable(text));
}

}  // namespace
