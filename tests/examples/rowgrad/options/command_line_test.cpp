#include "tests/support/options.hpp"
#include "tests/test.hpp"

namespace {

TEST(CommandLine, IsQuotedForAShell) {
  std::string prompt, file;
  std::vector<std::uint64_t> hidden{256};
  std::uint64_t steps = 7;
  bool tie = true, bias = false;
  const CommandLine line = parsed_line(
      {{"--prompt", &prompt, ""},
       {"--hidden", &hidden, "", whole_number(0)},
       {"--steps", &steps, "", whole_number(0)},
       {"--bias", &bias, ""},
       {"--tie-weights", &tie, ""},
       {"FILE", &file, ""}},
      {"a.run", "--prompt", "it's \"so\" $x", "--hidden", "3,4", "--bias", "--no-tie-weights"});
  EXPECT_EQ(
      line.repeated(),
      "rowgrad train a.run --prompt 'it'\\''s \"so\" $x' --hidden 3 4 --bias --no-tie-weights");
  const std::map<std::string, std::string> texts = texts_of(line.options());
  EXPECT_EQ(texts.at("--hidden"), "3 4");
  EXPECT_EQ(texts.at("--steps"), "7");
  EXPECT_EQ(texts.at("FILE"), "a.run");
  EXPECT_FALSE(texts.contains("--help"));
  EXPECT_TRUE(line.was_given("--tie-weights"));
  EXPECT_FALSE(line.was_given("--steps"));
}

TEST(CommandLine, RejectsInvalidArguments) {
  std::uint64_t width = 1;
  const auto parse = [&](const std::vector<std::string>& arguments) {
    parsed_line({{"--width", &width, "", whole_number(1)}}, arguments);
  };
  EXPECT_ERROR_WITH(std::invalid_argument, "--width is given twice, expected once",
                    parse({"--width", "8", "--width", "9"}));
  EXPECT_ERROR_WITH(std::invalid_argument, "--width is given 3 times",
                    parse({"--width", "1", "--width", "2", "--width", "3"}));
  EXPECT_ERROR_WITH(std::invalid_argument, "unknown option --wide; see rowgrad train --help",
                    parse({"--wide", "8"}));
  EXPECT_ERROR_WITH(std::invalid_argument, "unexpected argument 8; see rowgrad train --help",
                    parse({"8"}));
  EXPECT_ERROR_WITH(std::invalid_argument,
                    "--book is now --options examples/textbook/chapter5.json", parse({"--book=5"}));
  EXPECT_ERROR_WITH(std::invalid_argument, "--max-steps is now --stop-after",
                    parse({"--max-steps", "5"}));
  EXPECT_ERROR_WITH(std::invalid_argument, "--look-back is now --window",
                    parse({"--look-back", "2"}));
  EXPECT_ERROR_WITH(std::invalid_argument, "--tie is now --tie-weights", parse({"--no-tie"}));
  EXPECT_ERROR_WITH(
      std::invalid_argument, "unknown option --wide; see rowgrad train --help-all",
      parsed_line({{"--width", &width, "", whole_number(1), "Model"}}, {"--wide", "8"}));
  std::string file;
  EXPECT_ERROR_WITH(std::invalid_argument, "RUN is missing; usage: rowgrad train RUN [OPTIONS]",
                    parsed_line({{"RUN", &file, "", required()}}, {}));
  EXPECT_EQ(width, 1U);
}

}  // namespace
