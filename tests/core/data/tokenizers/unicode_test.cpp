#include "tests/test.hpp"

namespace {

TEST(Unicode, KnowsLettersNumbersAndWhiteSpace) {
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

TEST(Unicode, KnowsLowerCase) {
  EXPECT_EQ(lower_case("Aa1 ÄÖß ΣΔ МЫ \U00010400 世"), "aa1 äöß σδ мы \U00010428 世");
  EXPECT_EQ(lower_case(""), "");
}

}  // namespace
