#include "tests/test.hpp"

namespace {

TEST(Utf8, DecodesTheSmallestAndLargestCharacterOfEveryLength) {
  const std::map<std::string, char32_t> cases = {
      {std::string(1, '\0'), 0},
      {"\x7F", 0x7F},
      {"\xC2\x80", 0x80},
      {"\xDF\xBF", 0x7FF},
      {"\xE0\xA0\x80", 0x800},
      {"\xED\x9F\xBF", 0xD7FF},
      {"\xEE\x80\x80", 0xE000},
      {"\xEF\xBF\xBF", 0xFFFF},
      {"\xF0\x90\x80\x80", 0x10000},
      {"\xF4\x8F\xBF\xBF", 0x10FFFF},
  };
  for (const auto& [bytes, code_point] : cases) {
    const std::string text = "x" + bytes + "\xBF";
    const Utf8Character character = decode_utf8(text, 1);
    EXPECT_EQ(character.code_point, code_point) << in_quotes(text);
    EXPECT_EQ(character.bytes, bytes.size()) << in_quotes(text);
  }
}

TEST(Utf8, ReportsEachInvalidByteSeparately) {
  const std::vector<std::string_view> cases = {
      "\x80",              // a continuation byte without a start
      "\xC1\xBF",          // overlong
      "\xE0\x9F\xBF",      // overlong
      "\xF0\x8F\xBF\xBF",  // overlong
      "\xED\xA0\x80",      // a surrogate
      "\xF4\x90\x80\x80",  // above U+10FFFF
      "\xF5\x80\x80\x80",  // not a valid start byte
      "\xFF",              // not a valid start byte
      "\xE4\xB8",          // truncated by the end of the string
      "\xE4\xB8x",         // truncated by another character
  };
  for (const std::string_view text : cases) {
    EXPECT_EQ(decode_utf8(text, 0).code_point, kInvalidCodePoint) << in_quotes(text);
    EXPECT_EQ(decode_utf8(text, 0).bytes, 1U) << in_quotes(text);
  }
}

TEST(Utf8, QuotesStringsWithEveryByteVisible) {
  EXPECT_EQ(concat(in_quotes("a b")), R"("a b")");
  EXPECT_EQ(concat(in_quotes("\n\x7F\xFF世")), R"("\x0a\x7f\xff世")");
  EXPECT_EQ(concat(in_quotes("\u009B31mé")), R"("\xc2\x9b31mé")");
  EXPECT_EQ(concat(in_quotes("\u009F\u00A0")), "\"\\xc2\\x9f\u00A0\"");
  EXPECT_EQ(concat(in_quotes(std::string(61, 'x'))), '"' + std::string(60, 'x') + "...\"");
  EXPECT_EQ(concat(in_quotes(std::string(16, '\n'))).size(), 60 + std::string("\"...\"").size());
}

}  // namespace
