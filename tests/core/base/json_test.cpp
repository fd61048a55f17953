#include "tests/test.hpp"

namespace {

// The fuzz target json checks accepted inputs and values against nlohmann/json.

std::string refusal(const auto& read, const std::string& text) {
  return error_of<std::runtime_error>([&] { read(Json(text, "text")); });
}

TEST(Json, ErrorsNameTheOffset) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {"", ", byte 0: not valid JSON"},
           {R"("a)", ", byte 2: not valid JSON"},
           {"\"\xC1\xBF\"", ", byte 1: not valid JSON"},
           {R"("\uD83D\u0061")", ", byte 12: not valid JSON"},
           {"[1,]", ", byte 3: not valid JSON"},
           {"[1]]", ", byte 3: not valid JSON"},
           {std::string("[]\0", 3), ", byte 2: not valid JSON"},
           {"1e999", ", byte 4: the number is too large for double precision"},
           {nested(65), ": values are nested more than 64 levels deep"},
           {std::string(1'000'000, '['), ": values are nested more than 64 levels deep"},
           {objects, ": values are nested more than 64 levels deep"},
           {R"({"a":1,"\u0061":2})", ": duplicate key \"a\""}})
    EXPECT_EQ(refusal([](const Json&) {}, text), "text" + message);
  for (const std::string& text : {nested(64), std::string(R"({"a":{"a":1},"b":{"a":1}})"),
                                  std::string("\xEF\xBB\xBF[]")})  // with a byte order mark
    EXPECT_NO_THROW(Json(text, "text")) << text;
}

TEST(Json, TypeErrorsNameTheInnermostMember) {
  const auto read_lists = [](const Json& json) {
    for (const auto& [key, list] : json.members())
      for (const Json& element : list.elements())
        for (const auto& [inner, value] : element.members()) value.string();
  };
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {R"({"a":[{"b":"c"}]})", "no error"},
           {"7", "text: expected an object"},
           {R"({"a":{"b":"c"}})", "text, at \"a\": expected an array"},
           {R"({"a":[{"b":["c"]}]})", "text, at \"b\": expected a string"},
           {R"({"a":[{"b":"c"},"d"]})", "text, at \"a\": expected an object"},
           {R"({"a":[{"b":"c"}],"d":"e"})", "text, at \"d\": expected an array"}})
    EXPECT_EQ(refusal(read_lists, text), message);
  EXPECT_EQ(Json(R"({"a":1})", "text").find("b"), nullptr);
}

TEST(Json, ReadsNumbersAndBooleans) {
  const auto whole = [](const Json& json) { return json.whole_number(); };
  const auto number = [](const Json& json) { return json.number(); };
  const auto boolean = [](const Json& json) { return json.boolean(); };
  EXPECT_EQ(whole(Json(" 18446744073709551615 ", "text")), 18446744073709551615u);
  for (const std::string text :
       {"18446744073709551616", "-1", "-0", "1.0", "1e2", "null", "\"1\"", "[1]"})
    EXPECT_EQ(refusal(whole, text), "text: expected a whole number below 2^64") << text;
  for (const auto& [text, value] :
       std::map<std::string, double>{{"7", 7}, {"-7", -7}, {"1e-05", 1e-5}})
    EXPECT_EQ(number(Json(text, "text")), value);
  EXPECT_EQ(refusal(number, "\"1\""), "text: expected a number");
  EXPECT_TRUE(boolean(Json("true", "text")));
  EXPECT_FALSE(boolean(Json("false", "text")));
  EXPECT_EQ(refusal(boolean, "1"), "text: expected true or false");
}

TEST(Json, WritesTheValuesThatWereBuilt) {
  Json number(3.0);
  EXPECT_INVALID("Json: cannot access the member \"a\", as the value is not an object",
                 number["a"]);
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

TEST(Json, BuiltValuesCheckTypesLikeParsedValues) {
  const auto error = [](const auto& read, const Json& json) {
    return error_of<std::runtime_error>([&] { read(json); });
  };
  Json built{{"steps", 7}, {"list", std::vector{1, 2}}};
  const std::string got = "JSON value: expected ";
  EXPECT_EQ(error([](const Json& j) { j.find("steps")->string(); }, built), got + "a string");
  EXPECT_EQ(error([](const Json& j) { j.find("steps")->find("x"); }, built), got + "an object");
  EXPECT_EQ(error([](const Json& j) { j.find("list")->strings(); }, built), got + "a string");
  EXPECT_EQ(error([](const Json& j) { j.elements(); }, built), got + "an array");
  EXPECT_EQ(error([](const Json& j) { j.boolean(); }, built), got + "true or false");
  EXPECT_EQ(error([](const Json& j) { j.number(); }, built), got + "a number");
  EXPECT_EQ(error([](const Json& j) { j.whole_numbers(); }, Json()), got + "an array");
  EXPECT_EQ(error([](const Json& j) { j.whole_number(); }, Json(-1)),
            got + "a whole number below 2^64");
  EXPECT_INVALID("Json::push_back: the value is not an array", built.push_back(1));
  EXPECT_EQ(built.dump(), R"({"list":[1,2],"steps":7})");
  // A value outlives the string that it was parsed from.
  Json kept = [] {
    Json read(R"({"a":{"a longer key than fits in place":["b"]}})", "text");
    return std::move(read["a"]["a longer key than fits in place"]);
  }();
  EXPECT_EQ(error([](const Json& j) { j.elements()[0].number(); }, kept),
            "text, at \"a longer key than fits in place\": expected a number");
}

TEST(JsonString, IsAsciiAndParsesToTheSameString) {
  EXPECT_EQ(json_string("a\"b\\c/\n\x01\x7F é世🙂"),
            R"("a\"b\\c/\n\u0001\u007f \u00e9\u4e16\ud83d\ude42")");
  std::string all;
  for (char32_t point = 0; point < 0x110000; point += point < 0x3000 ? 1 : 37)
    if (point < 0xD800 || point > 0xDFFF) append_utf8(all, point);
  EXPECT_EQ(Json(json_string(all), "text").string(), all);
  EXPECT_INVALID("json_string: the byte \"\\xff\" at byte 1 of the text is not part of valid UTF-8",
                 json_string("a\xFF"));
}

}  // namespace
