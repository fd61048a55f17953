// The expected order and texts are those of pandas 1.5 for the same file.

#include "tests/test.hpp"
#include <rowgrad/examples/support/spam_collection.hpp>

namespace {

TEST(SpamCollection, IsReadAndSplitAsByPandas) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 31; ++i) {
    const std::string forms[] = {concat("message ", i), concat("\"quoted\" message ", i),
                                 concat("message \"", i, '"'), concat("\"message\n", i, '"'),
                                 concat("\"message \"\"", i, "\"\"\tnow\"")};
    lines += concat(i % 3 > 0 ? "ham" : "spam", '\t', forms[i % 5], '\n');
  }
  write_file(folder / "messages", lines);
  const SpamCollection split = read_spam_collection(folder / "messages");

  std::vector<std::string> expected;
  for (const int i :
       {13, 19, 11, 24, 26, 15, 1, 30, 12, 9, 3, 22, 8, 21, 23, 0, 25, 18, 29, 27, 7, 6}) {
    const std::string forms[] = {concat("message ", i), concat("quoted message ", i),
                                 concat("message \"", i, '"'), concat("message\n", i),
                                 concat("message \"", i, "\"\tnow")};
    expected.push_back(concat(i % 3 > 0 ? 0 : 1, ' ', forms[i % 5]));
  }
  std::vector<std::string> found;
  for (const auto* part : {&split.training, &split.validation, &split.test})
    for (const LabelledText& each : *part) found.push_back(concat(each.label, ' ', each.text));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(split.training.size(), 15U);
  EXPECT_EQ(split.validation.size(), 2U);
}

TEST(SpamCollection, RefusesOtherFiles) {
  const TemporaryFolder folder;
  const std::string path = (folder / "messages").string();
  const auto refusal = [&](const std::string& contents) {
    write_file(path, contents);
    return error_of<std::runtime_error>([&] { read_spam_collection(path); });
  };
  EXPECT_EQ(refusal("ham\tone\nHam\ttwo\n"),
            path + ": message 2 begins with \"Ham\", expected ham or spam, and a tab");
  EXPECT_HAS(refusal("ham"), "message 1 begins with \"ham\"");
  EXPECT_EQ(refusal("ham\tone\nspam\ttwo\n"),
            path +
                ": has 1 messages of ham and 1 of spam, expected at least 5 of spam and as many "
                "of ham");
  EXPECT_EQ(refusal("ham\t\"one\nspam\ttwo\n"), path + ": the quote of message 1 is never closed");
  EXPECT_HAS(refusal(std::string(477'907, 'x')), "is damaged, its SHA-256 is");
}

// The book's sizes, and the texts that its tables begin and end with.
TEST(SpamCollection, HasTheBooksTables) {
  const char* path = std::getenv("ROWGRAD_MESSAGES");
  if (path == nullptr) GTEST_SKIP() << "set ROWGRAD_MESSAGES to the file SMSSpamCollection";
  const SpamCollection split = read_spam_collection(path);
  EXPECT_EQ(split.training.size(), 1045U);
  EXPECT_EQ(split.validation.size(), 149U);
  EXPECT_EQ(split.test.size(), 300U);
  EXPECT_EQ(split.training.front().text, "Dude how do you like the buff wind.");
}

}  // namespace
