// The program fine_tune, run as a user runs it.

#include <cstdlib>
#include <regex>

#include "tests/support/shell.hpp"
#include "tests/test.hpp"

namespace {

class FineTune : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 12; ++i)
      text += "a dog and a cat sat on the mat, and the cat and the dog looked at the man. ";
    write_file(folder_ / "corpus", text);
    write_file(folder_ / "kinds.csv",
               "what,said\ngood,\"yes, a cat\"\nbad,no\ngood,the dog\nbad,not that\ngood,and\nbad,"
               "no man\n");
  }

  std::string in_folder(const std::string& command) const {
    return concat("cd ", folder_.path().string(), "; ", command);
  }

  TemporaryFolder folder_;
};

TEST_F(FineTune, TellsTwoKindsOfText) {
  const Outcome outcome =
      shell(in_folder("fine_tune --corpus corpus --steps 5 --epochs 1 --save-adapters adapters"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const std::string part : {"\"forwards\" \"backwards\"", "head, norm, last block",
                                 "adapters of rank 8", "head of an untrained GPT"})
    EXPECT_HAS(outcome.output, part);
  EXPECT_EQ(read_safetensors(folder_ / "adapters").names().size(), 3U * (3 * 6 + 1));
}

TEST_F(FineTune, ReadsKindsOfTextFromTables) {
  const std::string start = "fine_tune --corpus corpus --steps 2 --epochs 1 --examples kinds.csv ";
  const Outcome outcome = shell(in_folder(start + "--text-column said --label-column what"));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_HAS(outcome.output, "\"bad\" \"good\"");
  EXPECT_HAS(outcome.output, "5 to learn, 1 for validation, 1 epochs");
  expect_refused(in_folder(start), "kinds.csv: has no column \"text\"");
  expect_refused(in_folder("fine_tune --text-column said"), "--examples");
  expect_refused(in_folder("fine_tune --save-adapters none/adapters"), "none");
  expect_refused(in_folder("mkdir -p kinds/a; echo text >kinds/a/1; "
                           "fine_tune --examples kinds --save-adapters kinds/a/1"),
                 "kinds/a/1: is in a folder that is read");
  expect_refused(in_folder("printf 'a\\377' >bytes; fine_tune --corpus bytes"),
                 "bytes: the byte \"\\xff\" at byte 1");
  expect_refused(in_folder("fine_tune --width 8"), "--width: got \"8\"");
  expect_refused(in_folder("fine_tune --corpus corpus --context 2000"),
                 "there are 0 texts to learn and 0 for validation");
  expect_refused(in_folder("fine_tune --book 6"), "--gpt2");
  expect_refused(in_folder("fine_tune --book e --gpt2 . --messages . --steps 3"), "--steps");
}

TEST_F(FineTune, TakesTextsOfAnyAlphabetAndCutsLongOnes) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "“日本語のテキスト”é。";
  write_file(folder_ / "corpus", text);
  write_file(folder_ / "kinds.tsv",
             "label\ttext\na\t日本語日本語日本語\n\033[31m\té\na\tの\n\033[31m\tト\na\tス\n");
  const std::string start = "fine_tune --corpus corpus --steps 2 --epochs 1 --context 8 ";
  for (const std::string examples : {"", "--examples kinds.tsv"}) {
    const Outcome outcome = shell(in_folder(start + examples));
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    if (!examples.empty()) {
      EXPECT_HAS(outcome.output, "1 are cut at --context");
      EXPECT_HAS(outcome.output, "\"\\x1b[31m\" \"a\"");
    }
  }
}

TEST_F(FineTune, SaysWhatTheBooksRunsNeed) {
  const std::string book = "fine_tune --gpt2 . --messages SMSSpamCollection --book ";
  expect_refused(in_folder(book + "6"), "SHA-256 248dfc391186");
  write_file(folder_ / "model.safetensors", "of another size");
  expect_refused(in_folder(book + "6"), "for GPT-2's weights, download https://huggingface.co");
  write_safetensors(folder_ / "model.safetensors", {});
  expect_refused(in_folder(book + "e"), "sms+spam+collection.zip and unpack SMSSpamCollection");
  expect_refused(in_folder(book + "6 --save-adapters x"), "--save-adapters has no effect");
}

class BookFineTune : public PublishedData {};

TEST_F(BookFineTune, GoesThroughWithASmallModel) {
  const TemporaryFolder folder;
  std::string messages;
  for (int i = 0; i < 90; ++i)
    messages += i % 2 == 0 ? "spam\twin, win a prize now\n" : "ham\tsee you at home then\n";
  write_file(folder / "messages", messages);
  const std::string start = concat("cd ", folder.path().string(),
                                   "; export ROWGRAD_DATA=", std::getenv("ROWGRAD_DATA"), "; ");
  const Outcome made = shell(
      start +
      "train_gpt --tokenizer gpt2 --width 16 --heads 2 --layers 2 --context 8 --bias --qkv-bias "
      "--tie --steps 2 --sample 0 --gpt2-export model.safetensors");
  ASSERT_EQ(made.status, 0) << made.output;
  const std::string book = start + "fine_tune --gpt2 . --messages messages --epochs 9 --book ";
  const Outcome six = shell(book + "6");
  EXPECT_EQ(six.status, 0) << six.output;
  EXPECT_HAS(six.output, "step  50 loss");
  EXPECT_HAS(six.output, "the book's  0.617  0.637");
  EXPECT_HAS(six.output, "epoch 1 accuracy");
  const Outcome e = shell(book + "e --save-adapters adapters");
  EXPECT_EQ(e.status, 0) << e.output;
  EXPECT_HAS(e.output, "at the end        100.00 100.00 100.00\n");
  EXPECT_HAS(six.output, "at the end");
  EXPECT_HAS(six.output, "the book's  97.21  97.32  95.67");
  EXPECT_EQ(read_safetensors(folder / "adapters").names().size(), 3U * 13);
}

// The book's runs themselves, where GPT-2's weights and the messages are: each number within
// one of its last printed digits.
TEST_F(BookFineTune, RepeatsTheBook) {
  const char* weights = std::getenv("ROWGRAD_GPT2");
  const char* messages = std::getenv("ROWGRAD_MESSAGES");
  if (weights == nullptr || messages == nullptr)
    GTEST_SKIP() << "set ROWGRAD_GPT2 to a folder with GPT-2's weights and ROWGRAD_MESSAGES to "
                    "the file SMSSpamCollection";
  for (const std::string book : {"6", "e"}) {
    const Outcome run =
        shell(concat("export ROWGRAD_DATA=", std::getenv("ROWGRAD_DATA"), "; fine_tune --book ",
                     book, " --gpt2 ", weights, " --messages ", messages));
    ASSERT_EQ(run.status, 0) << run.output;
    const auto numbers_in = [](const std::string& text) {
      const std::regex number(R"([0-9]+\.[0-9]+)");
      std::vector<double> numbers;
      for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at)
        numbers.push_back(std::stod(at->str()));
      return numbers;
    };
    std::size_t compared = 0;
    std::istringstream lines(run.output);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t mark = line.find("   the book's ");
      if (mark == std::string::npos) continue;
      const std::vector<double> ours = numbers_in(line.substr(0, mark));
      const std::vector<double> printed = numbers_in(line.substr(mark));
      ASSERT_EQ(ours.size(), printed.size()) << line;
      for (std::size_t i = 0; i < ours.size(); ++i)
        EXPECT_NEAR(ours[i], printed[i], 0.0011) << line;
      compared += ours.size();
    }
    EXPECT_EQ(compared, book == "6" ? 45U : 8U);
  }
}

}  // namespace
