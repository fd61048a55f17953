#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/options/settings.hpp>

namespace {

constexpr std::array kSources{Source::kDefault, Source::kPreset, Source::kSavedRun,
                              Source::kOptionsFile, Source::kCommandLine};

// Variables of options with rules of each kind.
struct Variables {
  std::uint64_t width = 1, every = 0;
  std::string kind = "round", save = "", other = "";
  double share = 0;
  std::vector<std::uint64_t> sizes = {3};
  bool fast = true;

  OptionTable table() {
    return {{"--width", &width, "", whole_number(1)},
            {"--kind", &kind, "", one_of({"round", "square"})},
            {"--save", &save, "file to write", file_name()},
            {"--every", &every, "", whole_number(0) + needs("--save")},
            {"--other", &other, "", excludes({"--save"})},
            {"--share", &share, "", finite_number(0, 1) + applies_when("--kind", {"square"})},
            {"--sizes", &sizes, "", whole_number(1)},
            {"--fast", &fast, ""}};
  }
};

Json parsed(const std::string& text) { return Json(text, "options"); }

TEST(Settings, TakeTheValueOfTheHighestSource) {
  for (const Source low : kSources)
    for (const Source high : kSources) {
      if (low >= high) continue;
      for (const bool high_first : {false, true}) {
        Variables variables;
        Settings settings(variables.table());
        settings.add(high_first ? high : low, {{"width", high_first ? 9 : 5}});
        settings.add(high_first ? low : high, {{"width", high_first ? 5 : 9}});
        EXPECT_EQ(settings["--width"].whole_number(), 9U);
        EXPECT_EQ(settings.source("--width"), high);
        EXPECT_EQ(settings.below(high, "--width").whole_number(), 5U);
        EXPECT_EQ(settings.is_given("--width"), high >= Source::kOptionsFile);
        settings.remove(high, "--width");
        EXPECT_EQ(settings["--width"].whole_number(), 5U);
      }
    }
}

TEST(Settings, FillTheVariablesOfAllOptions) {
  Variables variables;
  Settings settings(variables.table());
  settings.add(Source::kPreset, parsed(R"({"width": 2, "kind": "square", "share": 1})"));
  settings.add(Source::kCommandLine, parsed(R"({"sizes": [4, 5], "fast": false})"));
  settings.add_words(Source::kCommandLine, "--width", {"7"});
  EXPECT_EQ(variables.width, 1U);
  settings.fill();
  EXPECT_EQ(variables.width, 7U);
  EXPECT_EQ(variables.kind, "square");
  EXPECT_EQ(variables.share, 1);
  EXPECT_EQ(variables.sizes, (std::vector<std::uint64_t>{4, 5}));
  EXPECT_FALSE(variables.fast);
}

TEST(Settings, RefuseWrongValuesOfAnySource) {
  Variables variables;
  Settings settings(variables.table());
  for (const Source source : kSources) {
    EXPECT_ERROR_WITH(std::invalid_argument, "\"width\": got \"0\", expected a whole",
                      settings.add(source, {{"width", 0}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "\"width\": got the text \"8\", expected",
                      settings.add(source, {{"width", "8"}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "\"fast\": got \"3\", expected true or false",
                      settings.add(source, {{"fast", 3}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "expected a list of whole numbers",
                      settings.add(source, {{"sizes", 3}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "there is no option for \"wide\"",
                      settings.add(source, {{"wide", 3}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "--kind: got \"flat\", expected",
                      settings.add_words(source, "--kind", {"flat"}));
  }
  EXPECT_EQ(settings["--width"].whole_number(), 1U);
}

TEST(Settings, CheckRulesForWhatAUserSets) {
  const auto check = [](Source source, const std::string& values, const std::string& more = "{}") {
    Variables variables;
    Settings settings(variables.table());
    settings.add(source, parsed(values));
    settings.add(Source::kCommandLine, parsed(more));
    settings.check();
  };
  for (const Source source : {Source::kOptionsFile, Source::kCommandLine}) {
    EXPECT_ERROR_WITH(std::invalid_argument, "--every requires --save: file to write",
                      check(source, R"({"every": 5})"));
    EXPECT_ERROR_WITH(std::invalid_argument, "--other excludes --save",
                      check(source, R"({"other": "a", "save": "b"})"));
    EXPECT_ERROR_WITH(std::invalid_argument, "--share is for --kind square, not for \"round\"",
                      check(source, R"({"share": 0.5})"));
    check(source, R"({"every": 5, "save": "b", "share": 0.5, "kind": "square"})");
  }
  // A file may have all options of a run, and a saved run and presets do.
  check(Source::kOptionsFile, R"({"every": 0, "share": 0})");
  check(Source::kSavedRun, R"({"every": 5})");
  check(Source::kPreset, R"({"share": 0.5})");
  // A command line overrides the condition.
  check(Source::kOptionsFile, R"({"share": 0.5, "kind": "square"})", R"({"kind": "round"})");
  EXPECT_ERROR_WITH(std::invalid_argument, "--share is for",
                    check(Source::kOptionsFile, R"({"kind": "round"})", R"({"share": 0.5})"));
}

}  // namespace
