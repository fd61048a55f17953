// The GPT of Raschka's "Build a Large Language Model (From Scratch)", chapter 5 and appendix D: 162
// million parameters trained on The Verdict, with the options in examples/textbook. Compares the
// results with the values printed in the book.

#include "tests/support/shell.hpp"
#include "tests/test.hpp"

namespace {

// Tests that take minutes and run only if the environment variable ROWGRAD_TEXTBOOK is set.
class TextbookRun : public PublishedData {
 protected:
  void SetUp() override {
    PublishedData::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("ROWGRAD_TEXTBOOK") == nullptr)
      GTEST_SKIP() << "set ROWGRAD_TEXTBOOK to train GPTs of 162 million parameters, for minutes";
  }

  // Trains with a file of examples/textbook and further options. Returns the JSON of the run.
  json trained(const std::string& options) {
    const std::string data = std::filesystem::absolute(file("")).string();
    const Outcome outcome =
        folder_.shell(concat("ROWGRAD_DATA=", data, " rowgrad train --json out --options ",
                             "$sources/examples/textbook/", options));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    printed_ = outcome.output;
    return json::parse(read_file(folder_ / "out"));
  }

  // Compares the losses after steps 1, 6, 11 and so on, to the last digit that the book prints.
  static void expect_losses(const json& run, const std::string& name) {
    const json book = golden("textbook.json")["losses"][name], &losses = run["evaluations"];
    ASSERT_EQ(losses.size(), book.size());
    for (std::size_t i = 0; i < book.size(); ++i) {
      EXPECT_EQ(losses[i]["steps"], 5 * i + 1);
      for (const auto& [j, kind] : {std::pair(0, "training_loss"), std::pair(1, "validation_loss")})
        EXPECT_EQ(std::round(1000 * losses[i][kind].get<double>()),
                  std::round(1000 * book[i][j].get<double>()))
            << kind << " after step " << 5 * i + 1;
    }
  }

  std::string printed_;

 private:
  const CommandFolder folder_;
};

TEST_F(TextbookRun, PrintsTheBooksLossesAndSamples) {
  const json run = trained("chapter5.json");
  double training = 0, validation = 0;
  const std::size_t begin = printed_.find("untrained");
  ASSERT_NE(begin, printed_.npos) << printed_;
  ASSERT_EQ(std::sscanf(printed_.c_str() + begin, "untrained training loss %lf validation loss %lf",
                        &training, &validation),
            2);
  EXPECT_NEAR(training, 10.987583, 1e-6);
  EXPECT_NEAR(validation, 10.981105, 3e-6);
  expect_losses(run, "chapter5");
  const BytePairTokenizer tokenizer = gpt2();
  const json samples = golden("textbook.json")["samples"];
  ASSERT_GE(run["samples"].size(), samples.size());  // one after each epoch, and one at the end
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Ids32 text{6109, 3626, 6100, 345};
    const Ids32 more = samples[i];
    text.insert(text.end(), more.begin(), more.end());
    EXPECT_EQ(run["samples"][i]["text"], tokenizer.decode(text));
  }
}

// Stops before clipping begins, because two versions of the book differ in later steps, and the
// order of summation affects the third decimal there.
TEST_F(TextbookRun, WarmsUpAsInAppendixD) {
  expect_losses(trained("appendix_d.json --stop-after 26 --sample-tokens 0"), "appendix_d");
}

}  // namespace
