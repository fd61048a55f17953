#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/options/settings.hpp>

namespace {

constexpr std::array kSources{Source::kDefault,      Source::kPreset,      Source::kSavedRun,
                              Source::kOptionsOfRun, Source::kOptionsFile, Source::kCommandLine};

// The variables of options, with one rule of each kind.
struct Variables {
  std::uint64_t width = 1, every = 0, late = 0;
  std::string kind = "round", save = "", other = "";
  double share = 0;
  std::vector<std::uint64_t> sizes = {3};
  bool fast = true;

  OptionTable table() {
    return {{"--width", &width, "", whole_number(1)},
            {"--kind", &kind, "", one_of({"round", "square"})},
            {"--save", &save, "file to write", file_name()},
            {"--every", &every, "", whole_number(0) + needs("--save")},
            {"--other", &other, "", excludes({"--save", "--fast"})},
            {"--share", &share, "", finite_number(0, 1) + applies_when("--kind", {"square"})},
            {"--late", &late, "", applies_when("--share")},
            {"--sizes", &sizes, "", whole_number(1)},
            {"--fast", &fast, ""}};
  }
};

Json parsed(const std::string& text) { return Json(text, "options"); }

TEST(Settings, TheHighestSourceWins) {
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
        EXPECT_EQ(settings.is_given("--width"), high >= Source::kOptionsOfRun);
        settings.remove(high, "--width");
        EXPECT_EQ(settings["--width"].whole_number(), 5U);
      }
    }
}

TEST(Settings, FillSetsAllVariables) {
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

TEST(Settings, RejectInvalidValuesFromEverySource) {
  Variables variables;
  Settings settings(variables.table());
  for (const Source source : kSources) {
    EXPECT_ERROR_WITH(std::invalid_argument, "\"width\": got \"0\", expected a whole",
                      settings.add(source, {{"width", 0}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "\"width\": got the string \"8\", expected",
                      settings.add(source, {{"width", "8"}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "\"fast\": got \"3\", expected true or false",
                      settings.add(source, {{"fast", 3}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "expected a list of whole numbers",
                      settings.add(source, {{"sizes", 3}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "unknown option \"wide\"",
                      settings.add(source, {{"wide", 3}}));
    EXPECT_ERROR_WITH(std::invalid_argument, "--kind: got \"flat\", expected",
                      settings.add_words(source, "--kind", {"flat"}));
  }
  EXPECT_EQ(settings["--width"].whole_number(), 1U);
}

TEST(Settings, CheckOnlyOptionsThatTheUserSets) {
  const auto check = [](Source source, const std::string& values, const std::string& more = "{}") {
    Variables variables;
    Settings settings(variables.table());
    settings.add(source, parsed(values), "file");
    settings.add(Source::kCommandLine, parsed(more));
    settings.check();
  };
  for (const Source source : {Source::kOptionsFile, Source::kCommandLine}) {
    const auto refused = [&](const std::string& key, const std::string& rest,
                             const std::string& values) {
      const std::string name =
          source == Source::kOptionsFile ? concat("file: \"", key, '"') : "--" + key;
      EXPECT_ERROR_WITH(std::invalid_argument, name + rest, check(source, values));
    };
    refused("every", " requires --save", R"({"every": 5})");
    refused("other", " cannot be used with --save", R"({"other": "a", "save": "b"})");
    refused("other", " cannot be used with --fast", R"({"other": "a", "fast": false})");
    refused("share", " requires --kind square, got \"round\"", R"({"share": 0.5})");
    refused("share", " requires --kind square, got \"round\"", R"({"share": 0})");
    refused("late", " requires --share above 0, got 0", R"({"late": 1})");
    check(source, R"({"every": 5, "save": "b", "share": 0.5, "kind": "square"})");
    check(source, R"({"every": 0, "other": "a"})");
  }
  for (const Source source : {Source::kPreset, Source::kSavedRun, Source::kOptionsOfRun})
    check(source, R"({"every": 5, "share": 0.5})");
  EXPECT_ERROR_WITH(std::invalid_argument, "--share requires",
                    check(Source::kOptionsFile, R"({"kind": "round"})", R"({"share": 0.5})"));
}

TEST(Settings, RemoveOverriddenValuesOfAFile) {
  for (const Source source : {Source::kOptionsOfRun, Source::kOptionsFile}) {
    Variables variables;
    Settings settings(variables.table());
    settings.add(source, parsed(R"({"share": 0.5, "late": 3, "width": 4, "kind": "square"})"));
    settings.remove_overridden();
    EXPECT_EQ(settings["--late"].whole_number(), 3U);
    settings.add(Source::kCommandLine, {{"kind", "round"}});
    settings.remove_overridden();
    EXPECT_EQ(settings.source("--share"), Source::kDefault);
    EXPECT_EQ(settings.source("--late"), Source::kDefault);
    EXPECT_EQ(settings["--width"].whole_number(), 4U);
    settings.check();
  }
}

TEST(Settings, RejectUnknownOptions) {
  Variables variables;
  Settings settings(variables.table());
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { settings["--wide"]; }, [&] { settings.source("--wide"); },
           [&] { settings.below(Source::kCommandLine, "--wide"); },
           [&] { settings.remove(Source::kPreset, "--wide"); },
           [&] { settings.add_words(Source::kPreset, "--wide", {"3"}); }})
    EXPECT_ERROR_WITH(std::invalid_argument, "unknown option --wide", use());
  EXPECT_ERROR_WITH(std::invalid_argument, "--width has no value below its default",
                    settings.below(Source::kDefault, "--width"));
  EXPECT_ERROR_WITH(std::invalid_argument, "--width: its default cannot be removed",
                    settings.remove(Source::kDefault, "--width"));
}

}  // namespace
