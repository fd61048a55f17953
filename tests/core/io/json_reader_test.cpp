#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include <rowgrad/core/io/json_reader.hpp>
#include <rowgrad/core/tensor/utf8.hpp>

namespace rowgrad {
namespace {

using testing::error_of;

std::string read_string(const std::string& text) {
  JsonReader json(text, "text");
  std::string result = json.string();
  json.finish();
  return result;
}

std::uint64_t read_number(const std::string& text) {
  JsonReader json(text, "text");
  const std::uint64_t result = json.whole_number();
  json.finish();
  return result;
}

void skip(const std::string& text) { check_json(text, "text"); }

std::string refusal(const auto& read, const std::string& text) {
  return error_of<std::runtime_error>([&] { read(text); });
}

TEST(JsonReader, ReadsWhatIsAskedForAndSkipsTheRest) {
  JsonReader json(
      " {\"a\" : [ 1,2 ,\t3 ],\r\n\"\" : {}, \"b\":[],\"c\":\"x\",\"d\":[{\"e\":null}]}\n", "text");
  std::map<std::string, std::vector<std::uint64_t>> lists;
  std::string c;
  json.object([&](const std::string& key) {
    if (key == "a" || key == "b") {
      lists[key];
      json.array([&] { lists[key].push_back(json.whole_number()); });
    } else if (key == "c") {
      c = json.string();
    } else {
      json.skip();
    }
  });
  json.finish();
  EXPECT_EQ(lists["a"], (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_TRUE(lists.contains("b"));
  EXPECT_EQ(lists.size(), 2u);
  EXPECT_EQ(c, "x");
}

TEST(JsonReader, ReadsEveryEscape) {
  EXPECT_EQ(read_string(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(read_string(R"("\u0061\u00E9\u4e16\ud83d\ude42")"), "aé世🙂");
  EXPECT_EQ(read_string(R"("\u0000")"), std::string(1, '\0'));
  EXPECT_EQ(read_string("\"é世🙂\x7F\""), "é世🙂\x7F");
}

TEST(JsonReader, SaysWhereAStringIsWrong) {
  const std::map<std::string, std::string> cases = {
      {R"("a)", "text, byte 2: a string without end"},
      {R"("a\)", "text, byte 2: an unknown escape in a string"},
      {R"("\x41")", "text, byte 1: an unknown escape in a string"},
      {"\"a\nb\"", "text, byte 2: a control character in a string"},
      {"\"\xC1\xBF\"", "text, byte 1: a byte that is not part of valid UTF-8"},
      {R"("\u12")", "text, byte 3: expected four hexadecimal digits"},
      {R"("\u-123")", "text, byte 3: expected four hexadecimal digits"},
      {R"("\uDE42")", "text, byte 1: half of a character in a string"},
      {R"("\uD83Dx")", "text, byte 1: half of a character in a string"},
      {R"("\uD83D\u0061")", "text, byte 1: half of a character in a string"},
      {R"("\uD83D\uD83D")", "text, byte 1: half of a character in a string"},
      {R"("a" "b")", "text, byte 4: expected the end"},
      {"7", "text, byte 0: expected a string"},
      {"", "text, byte 0: expected a string"},
  };
  for (const auto& [text, message] : cases) EXPECT_EQ(refusal(read_string, text), message) << text;
}

TEST(JsonReader, TakesWholeNumbersOnly) {
  EXPECT_EQ(read_number("0"), 0u);
  EXPECT_EQ(read_number(" 18446744073709551615 "), 18446744073709551615u);
  for (const std::string text : {"18446744073709551616", "-1", "-0", "1.0", "1e2", "1e999", "null",
                                 "\"1\"", "[1]", "", "+1"})
    EXPECT_EQ(refusal(read_number, text), "text, byte 0: expected a whole number below 2^64")
        << text;
  EXPECT_EQ(refusal(read_number, "01"), "text, byte 1: expected the end");
  EXPECT_EQ(refusal(read_number, " 1."), "text, byte 3: expected a digit");
}

TEST(JsonReader, SkipsOnlyWhatIsJson) {
  for (const std::string text : {"0", "-0.5e+10", "1E5", "1e999", "true", "false", "null", "\"\"",
                                 "[]", "{}", "[[],[{}]]", R"({"a":[1,"b",{"c":null}]})"})
    EXPECT_NO_THROW(skip(text)) << text;
  for (const std::string text : {"",         "-",
                                 "1.",       ".5",
                                 "1e",       "+1",
                                 "nul",      "truex",
                                 "[1,]",     "[,1]",
                                 "[1 2]",    "{\"a\"}",
                                 "{\"a\":}", "{\"a\":1,}",
                                 "{1:2}",    "{\"a\":1 \"b\":2}",
                                 "[",        "{",
                                 "[1",       "{\"a\":1",
                                 "]",        "[}",
                                 "{]",       "'a'",
                                 "[1]]",     "\xEF\xBB\xBF[]",
                                 "NaN"})
    EXPECT_TRUE(refusal(skip, text).starts_with("text, byte ")) << text;
  EXPECT_TRUE(refusal(skip, std::string("[]\0", 3)).starts_with("text, byte 2"));
}

TEST(JsonReader, BoundsTheDepthOfWhatItSkips) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(skip(nested(64)));
  EXPECT_EQ(refusal(skip, nested(65)), "text, byte 64: values are nested too deep");
  EXPECT_EQ(refusal(skip, std::string(1'000'000, '[')),
            "text, byte 64: values are nested too deep");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(refusal(skip, objects), "text, byte 320: values are nested too deep");
}

TEST(JsonReader, RefusesAKeyThatIsThereTwice) {
  EXPECT_NO_THROW(skip(R"({"a":{"a":1},"b":{"a":1}})"));
  EXPECT_EQ(refusal(skip, R"({"a":1,"\u0061":2})"), "text, byte 15: the key \"a\" is there twice");
}

TEST(JsonString, IsAsciiThatReadsBackAsTheSameText) {
  EXPECT_EQ(json_string("a\"b\\c/\n\x01\x7F é世🙂"),
            R"("a\"b\\c/\n\u0001\u007f \u00e9\u4e16\ud83d\ude42")");
  std::string all;
  for (char32_t point = 0; point < 0x110000; ++point)
    if (!is_surrogate(point)) append_utf8(all, point);
  EXPECT_EQ(read_string(json_string(all)), all);
  EXPECT_EQ(error_of<std::invalid_argument>([] { json_string("a\xFF"); }),
            "json_string: the byte \"\\xff\" at byte 1 of the text is not part of valid UTF-8");
}

}  // namespace
}  // namespace rowgrad
