#include <CLI/CLI.hpp>

#include "tests/test.hpp"
#include <rowgrad/examples/support/command_line.hpp>

namespace {

TEST(CommandLine, CanBeRepeatedInAShell) {
  CLI::App app;
  app.option_defaults()->always_capture_default();
  std::string prompt;
  std::vector<int> hidden{256};
  int steps = 7;
  bool tie = false;
  app.add_option("--prompt", prompt);
  app.add_option("--hidden", hidden);
  app.add_option("--steps", steps);
  app.add_flag("--tie,!--no-tie", tie);
  app.name("my programs/train");
  app.parse(std::vector<std::string>{"--tie", "4", "3", "--hidden", "it's \"so\" $x", "--prompt"});
  EXPECT_EQ(command_line(app),
            "'my programs/train' --prompt 'it'\\''s \"so\" $x' --hidden 3 4 --tie");
  const json values = option_values(app);
  EXPECT_EQ(values["--hidden"], "3 4");
  EXPECT_EQ(values["--steps"], "7");
  EXPECT_FALSE(values.contains("--help"));
}

}  // namespace
