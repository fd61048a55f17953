#include "tests/test.hpp"

namespace {

std::string read_string(const std::string& text) { return Json(text, "text").string(); }

std::uint64_t read_number(const std::string& text) { return Json(text, "text").whole_number(); }

void check(const std::string& text) { Json(text, "text"); }

std::string refusal(const auto& read, const std::string& text) {
  return error_of<std::runtime_error>([&] { read(text); });
}

TEST(Json, HasWhatTheTextHas) {
  const Json json(
      " {\"a\" : [ 1,2 ,\t3 ],\r\n\"\" : {}, \"b\":[],\"c\":\"x\",\"d\":[{\"e\":null}]}\n", "text");
  EXPECT_EQ(json.members().size(), 5u);
  EXPECT_EQ(json.find("a")->whole_numbers(), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_TRUE(json.find("b")->elements().empty());
  EXPECT_EQ(json.find("c")->string(), "x");
  EXPECT_EQ(json.find("d")->elements().at(0).members().count("e"), 1u);
  EXPECT_EQ(json.find("f"), nullptr);
}

TEST(Json, SaysWhereATextIsWrong) {
  const std::map<std::string, int> cases = {
      {R"("a)", 2}, {R"("\x41")", 2}, {"\"\xC1\xBF\"", 1}, {R"("\uD83D\u0061")", 12},
      {"", 0},      {"+1", 0},        {"01", 1},           {" 1.", 3},
      {"[1,]", 3},  {"[}", 1},        {"{\"a\"}", 4},      {"[1]]", 3},
      {"nul", 3},   {"//\n[]", 0}};
  for (const auto& [text, byte] : cases)
    EXPECT_EQ(refusal(check, text), concat("text, byte ", byte, ": not valid JSON")) << text;
  EXPECT_EQ(refusal(check, std::string("[]\0", 3)), "text, byte 2: not valid JSON");
  EXPECT_NO_THROW(check("\xEF\xBB\xBF[]"));  // a byte order mark, may be skipped
  EXPECT_EQ(read_string(R"("\u0061\u00E9\u4e16\ud83d\ude42\u0000")"),
            std::string("aé世🙂\0", 11));
}

TEST(Json, NamesTheInnermostMemberOfAnotherKind) {
  const auto read_lists = [](const std::string& text) {
    const Json json(text, "text");
    for (const auto& [key, list] : json.members())
      for (const Json& element : list.elements())
        for (const auto& [inner, value] : element.members()) value.string();
  };
  EXPECT_NO_THROW(read_lists(R"({"a":[{"b":"c"}]})"));
  EXPECT_EQ(refusal(read_lists, "7"), "text: expected an object");
  EXPECT_EQ(refusal(read_lists, R"({"a":{"b":"c"}})"), "text, at \"a\": expected an array");
  EXPECT_EQ(refusal(read_lists, R"({"a":[{"b":["c"]}]})"), "text, at \"b\": expected a string");
  EXPECT_EQ(refusal(read_lists, R"({"a":[{"b":"c"},"d"]})"), "text, at \"a\": expected an object");
  EXPECT_EQ(refusal(read_lists, R"({"a":[{"b":"c"}],"d":"e"})"),
            "text, at \"d\": expected an array");
}

TEST(Json, QuotesNoMoreThanAPartOfALongText) {
  const std::string name(1'000'000, 'x');
  const auto read_numbers = [](const std::string& text) {
    const Json json(text, "text");
    for (const auto& [key, value] : json.members()) value.whole_number();
  };
  for (const std::string& text :
       {"{\"" + name + "\": -1}", "{\"" + name + "\": 1, \"" + name + "\": 1}", "{\"" + name,
        "{\"a\": " + std::string(1'000'000, '9') + "}"})
    EXPECT_LT(refusal(read_numbers, text).size(), 200u);
}

TEST(Json, HasNumbersAndTruth) {
  EXPECT_EQ(read_number("0"), 0u);
  EXPECT_EQ(read_number(" 18446744073709551615 "), 18446744073709551615u);
  for (const std::string text :
       {"18446744073709551616", "-1", "-0", "1.0", "1e2", "null", "\"1\"", "[1]"})
    EXPECT_EQ(refusal(read_number, text), "text: expected a whole number below 2^64") << text;
  EXPECT_EQ(refusal(read_number, "1e999"), "text, byte 4: a number too large");
  const auto number = [](const std::string& text) { return Json(text, "text").number(); };
  EXPECT_EQ(number("7"), 7);
  EXPECT_EQ(number("-7"), -7);
  EXPECT_EQ(number("1e-05"), 1e-5);
  EXPECT_EQ(refusal(number, "\"1\""), "text: expected a number");
  const auto boolean = [](const std::string& text) { return Json(text, "text").boolean(); };
  EXPECT_TRUE(boolean("true"));
  EXPECT_FALSE(boolean("false"));
  EXPECT_EQ(refusal(boolean, "1"), "text: expected true or false");
}

TEST(Json, IsWrittenAsItIsMade) {
  Json made{{"a", -1}, {"b", 1e-5}, {"c", {{"x", true}, {"d", "e\"f"}}}};
  made["i"] = std::numeric_limits<std::uint64_t>::max();
  made["n"] = std::nan("");
  made["o"] = std::optional<double>();
  made["p"] = std::optional(0.5F);
  made["q"].push_back(std::string("é\xFF"));
  made["q"].push_back({{"r", 2}});
  made["s"] = Json::array();
  const std::string text =
      R"({"a":-1,"b":1e-05,"c":{"d":"e\"f","x":true},"i":18446744073709551615,"n":null,)"
      "\"o\":null,\"p\":0.5,\"q\":[\"é\uFFFD\",{\"r\":2}],\"s\":[]}";
  EXPECT_EQ(made.dump(), text);
  EXPECT_EQ(Json(text, "text").dump(), text);
  const Json list{{"a", std::vector{1.5}}};
  EXPECT_EQ(list.dump(2), "{\n  \"a\": [\n    1.5\n  ]\n}");
  EXPECT_EQ(Json().dump(), "null");
}

TEST(Json, BoundsTheDepth) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(check(nested(64)));
  EXPECT_EQ(refusal(check, nested(65)), "text: values are nested too deep");
  EXPECT_EQ(refusal(check, std::string(1'000'000, '[')), "text: values are nested too deep");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(refusal(check, objects), "text: values are nested too deep");
}

TEST(Json, RefusesAKeyThatIsThereTwice) {
  EXPECT_NO_THROW(check(R"({"a":{"a":1},"b":{"a":1}})"));
  EXPECT_EQ(refusal(check, R"({"a":1,"\u0061":2})"), "text: the key \"a\" is there twice");
}

TEST(JsonString, IsAsciiThatReadsBackAsTheSameText) {
  EXPECT_EQ(json_string("a\"b\\c/\n\x01\x7F é世🙂"),
            R"("a\"b\\c/\n\u0001\u007f \u00e9\u4e16\ud83d\ude42")");
  std::string all;
  for (char32_t point = 0; point < 0x110000; ++point)
    if (point < 0xD800 || point > 0xDFFF) append_utf8(all, point);
  EXPECT_EQ(read_string(json_string(all)), all);
  EXPECT_INVALID("json_string: the byte \"\\xff\" at byte 1 of the text is not part of valid UTF-8",
                 json_string("a\xFF"));
}

}  // namespace
