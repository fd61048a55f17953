// The GPT of Raschka's "Build a Large Language Model (From Scratch)", chapter 5 and appendix D: 162
// million parameters trained on The Verdict. The expected numbers are those that the book prints.

#include "tests/test.hpp"
#include <rowgrad/examples/support/book_log.hpp>
#include <rowgrad/examples/support/text_run.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>

namespace {

// The ids that continue the prompt after each epoch; 198x37 is 198, 37 times.
constexpr const char* kSamples[] = {
    "11x12 13 198x37",
    "11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 "
    "290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11 290 11x2 "
    "290 11 290 11",
    "11 290 314 550 587 13 198x44",
    "760 262 198x26 1 40 339 550 262 50085 290 314 550 262 290 314 550 262 50085 290 "
    "866 262 2119 11 314 550",
    "760 340 373 407 326 262 4286 438 40 550 262 1109 416 262 938 314 550 587 438 "
    "14363 11 290 287 262 198x12 1 5812 11 290 339 531 11 290 866 262 2119 11 290 287",
    "760 553 373 530 286 262 4286 13 383 438 40 550 257 1310 286 257 1310 25 366 5297 "
    "11 290 287 1109 11 290 287 262 4286 373 11 290 314 550 587 379 616 22662 290 355 "
    "465 5986 11 290 866 262 2119 11 314 550",
    "760 553 373 530 286 262 4286 329 2147 438 40 1297 9074 13 198x2 1 40 373 645 438 "
    "292 0 383 1466 550 587 11 287 262 2589 438 292 3619 2241 11 355 1752 530 550 587 "
    "262 50085 11 290 547 11 290 287 465",
    "760 553 373 530 286 262 7877 72 3150 339 550 587 262 9040 286 257 2116 12 10414 "
    "738 285 23968 4891 11 314 2936 284 766 257 8212 2157 465 1969 12768 680 21213 "
    "438 292 611 339 550 262 50085 13 366 11576 395 553 355 465",
    "1701 198x2 1 5297 438 37121 1035 27339 284 262 21296 13 1375 2227 683 29178 3474 "
    "438 392 416 502 2474 198x2 1544 13818 757 11 290 9617 736 262 4324 12 66 3325 "
    "1299 11 314 550 262 50085 13 366 1858 547 1528 618 314",
    "760 553 373 530 286 262 7877 72 3150 339 8104 866 1973 262 37918 411 290 8465 "
    "286 281 33954 271 3973 9899 14678 40556 12 11487 11 618 11 319 257 1568 1110 11 "
    "314 550 757 1057 625 422 22489 40089 26 290 9074 13 402 271"};

std::vector<std::int32_t> ids_in(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::int32_t> ids;
  for (std::string word; words >> word;) {
    const std::size_t times = word.find('x');
    ids.insert(ids.end(), times == std::string::npos ? 1 : std::stoul(word.substr(times + 1)),
               std::stoi(word));
  }
  return ids;
}

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
  static void expect_printed(const TextRun& training, std::size_t lines, const BookLog& book) {
    ASSERT_EQ(training.run.history().size() - training.run.epochs(), lines);
    EXPECT_EQ(compared(training.run.history(), book),
              concat(2 * lines, " of ", 2 * lines, " losses are the book's to the last digit"));
  }
};

TEST_F(TextbookRun, PrintsTheBooksLossesAndSamples) {
  TextRun training(chapter_5(), std::make_unique<BytePairTokenizer>(gpt2()), verdict());
  const TrainingRecord untrained = training.evaluate_all().value();
  EXPECT_NEAR(untrained.training_loss, 10.987583, 1e-6);
  EXPECT_NEAR(*untrained.validation_loss, 10.981105, 3e-6);
  const std::vector<std::int32_t> prompt{6109, 3626, 6100, 345};
  Random greedy(0);  // of which nothing is drawn
  for (const char* expected : kSamples) {
    training.run.run_epoch();
    const Ids ids =
        generate(training.model(), to_ids(prompt), {.count = 50, .temperature = 0}, greedy);
    EXPECT_EQ(std::vector<std::int32_t>(ids.begin(), ids.end()), ids_in(expected));
  }
  expect_printed(training, 18, book_log("5"));
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
  TextRun training(options, std::make_unique<BytePairTokenizer>(gpt2()), verdict());
  training.run.train(26);
  expect_printed(training, 6, book_log("d"));
}

}  // namespace
