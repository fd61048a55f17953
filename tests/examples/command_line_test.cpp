#include "tests/support/options_given.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/support/train_options.hpp>

namespace {

TEST(CommandLine, CanBeRepeatedInAShell) {
  std::string prompt;
  std::vector<std::uint64_t> hidden{256};
  std::uint64_t steps = 7;
  bool tie = true, bias = false;
  const CommandLine line = given(
      {{"--prompt", &prompt, ""},
       {"--hidden", &hidden, "", whole_number(0)},
       {"--steps", &steps, "", whole_number(0)},
       {"--bias", &bias, ""},
       {"--tie", &tie, ""}},
      {"my programs/train", "--prompt", "it's \"so\" $x", "--hidden", "3,4", "--bias", "--no-tie"});
  EXPECT_EQ(line.repeated(),
            "'my programs/train' --prompt 'it'\\''s \"so\" $x' --hidden 3 4 --bias --no-tie");
  const std::map<std::string, std::string> texts = texts_of(line.options());
  EXPECT_EQ(texts.at("--hidden"), "3 4");
  EXPECT_EQ(texts.at("--steps"), "7");
  EXPECT_FALSE(texts.contains("--help"));
  EXPECT_TRUE(line.was_given("--tie"));
  EXPECT_FALSE(line.was_given("--steps"));
}

TEST(CommandLine, TakesPresetsWhereNothingElseIsGiven) {
  TrainOptions options;
  CommandLine line = given(option_table_of(options), {"train", "--width", "7"});
  line.set_if_not_given(R"({"width": 8, "hidden": [9], "tie": true, "dropout": 0.25})");
  EXPECT_EQ(options.gpt.width, 7U);
  EXPECT_EQ(options.hidden, std::vector<std::uint64_t>{9});
  EXPECT_TRUE(options.gpt.tie_weights);
  EXPECT_EQ(options.gpt.dropout, 0.25);
  EXPECT_INVALID("there is no option for \"head\"", line.set_if_not_given(R"({"head": 8})"));
  EXPECT_INVALID("\"tie\": got \"3\", expected true or false",
                 line.set_if_not_given(R"({"tie": 3})"));
}

}  // namespace
