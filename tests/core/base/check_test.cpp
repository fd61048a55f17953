#include <locale>

#include "tests/test.hpp"

namespace {

TEST(Concat, ThrowsInsteadOfTruncating) {
  const std::string name(40, 'n');
  for_every_failure([] { return std::make_unique<std::string>(); },
                    [&](std::string& text) { text = concat("late.", name, '.', 12); },
                    [&](const std::string& text, bool finished) {
                      EXPECT_EQ(text, finished ? "late." + name + ".12" : "");
                    });
}

TEST(Concat, IgnoresTheGlobalLocale) {
  struct Grouping : std::numpunct<char> {
    char do_thousands_sep() const override { return ','; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new Grouping));
  const std::string text = concat(1234567, ' ', 0.5);
  std::locale::global(before);
  EXPECT_EQ(text, "1234567 0.5");
}

}  // namespace
