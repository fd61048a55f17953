// The GPT of Raschka's "Build a Large Language Model (From Scratch)", chapter 5 and appendix D: 162
// million parameters trained on The Verdict. The expected numbers are those that the book prints.

#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/output/book_log.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace {

// Minutes long, so only where the variable ROWGRAD_TEXTBOOK is set.
class TextbookRun : public PublishedData {
 protected:
  void SetUp() override {
    PublishedData::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("ROWGRAD_TEXTBOOK") == nullptr)
      GTEST_SKIP() << "set ROWGRAD_TEXTBOOK to train GPTs of 162 million parameters, for minutes";
  }

  static TrainOptions chapter_5() {
    TrainOptions options;
    options.tokenizer = "gpt2";
    options.gpt.context = options.stride = 256;
    options.loader.batch = 2;
    options.draws_as_pytorch = true;
    options.gpt.width = 768;
    options.gpt.dropout = 0.1;
    options.epochs = 10;
    options.optimizer = "adamw";
    options.learning_rate = 4e-4;
    options.weight_decay = 0.1;
    options.evaluation.every = 5;
    options.evaluation.batches = 5;
    options.model = "gpt";
    options.gpt.heads = options.gpt.layers = 12;
    return options;
  }

  // To the last printed digit.
  static void expect_printed(const Session& training, std::size_t lines, const BookLog& book) {
    ASSERT_EQ(training.run().history().size() - training.run().epochs(), lines);
    EXPECT_EQ(compared(training.run().history(), book),
              concat(2 * lines, " of ", 2 * lines, " losses are the book's to the last digit"));
  }
};

TEST_F(TextbookRun, PrintsTheBooksLossesAndSamples) {
  const auto training =
      Session::create(chapter_5(), std::make_unique<BytePairTokenizer>(gpt2()), verdict());
  const TrainingRecord untrained = training->evaluate_all().value();
  EXPECT_NEAR(untrained.training_loss, 10.987583, 1e-6);
  EXPECT_NEAR(*untrained.validation_loss, 10.981105, 3e-6);
  const std::vector<std::int32_t> prompt{6109, 3626, 6100, 345};
  Random greedy(0);  // of which nothing is drawn
  const json samples = golden("textbook.json")["samples"];
  for (const Ids32 expected : samples) {
    training->run().run_epoch();
    const Ids ids =
        generate(training->model(), to_ids(prompt), {.count = 50, .temperature = 0}, greedy);
    EXPECT_EQ(values(ids), expected);
  }
  expect_printed(*training, 18, book_log("5"));
}

// Up to the first step that is clipped. From there on two versions of the book differ, and the
// order of sums shows in the third decimal.
TEST_F(TextbookRun, WarmsUpAsInAppendixD) {
  TrainOptions options = chapter_5();
  options.epochs = 15;
  options.learning_rate = 1e-3;
  options.schedule = "cosine";
  options.warmup = 27;
  options.warmup_start = options.floor = 0.01;
  options.clip = 1;
  options.clip_from = 27;
  options.evaluation.batches = 1;
  const auto training =
      Session::create(options, std::make_unique<BytePairTokenizer>(gpt2()), verdict());
  training->run().train(26);
  expect_printed(*training, 6, book_log("d"));
}

}  // namespace
