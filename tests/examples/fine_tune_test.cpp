// The program fine_tune, run as a user runs it.

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
  EXPECT_HAS(outcome.output, "5 to learn, 1 for validation, 1 epoch\n");
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
}

TEST_F(FineTune, GoesOnFromASavedGptAndItsClassifiersClassify) {
  write_file(folder_ / "animals.csv",
             "label,text\ndog,a dog\ncat,a cat\ndog,the dog and the dog\ncat,the cat\n"
             "dog,dog and man\ncat,and the cat and the cat sat on the mat\n");
  ASSERT_EQ(
      shell(
          in_folder("train --model gpt --corpus corpus --context 24 --width 8 --heads 2 --layers 2 "
                    "--stop-after 2 --sample 0 --save gpt >/dev/null"))
          .status,
      0);
  const std::string start = "fine_tune --from gpt --examples animals.csv ";
  for (const std::string way : {"head", "block", "adapters", "all"}) {
    const Outcome made = shell(in_folder(start + "--epochs 20 --save classifier --train " + way));
    EXPECT_EQ(made.status, 0) << made.output;
    EXPECT_HAS(made.output, " numbers, of gpt\n");
    const Outcome told = shell(in_folder("fine_tune --from classifier --classify 'a dog'"));
    EXPECT_EQ(told.status, 0) << told.output;
    EXPECT_TRUE(told.output.starts_with("Text      \"a dog\"\n")) << told.output;
    double sum = 0;
    for (const std::string label : {"dog", "cat"}) {
      const std::size_t at = told.output.find(" %  \"" + label);
      ASSERT_NE(at, told.output.npos) << told.output;
      sum += std::stod(told.output.substr(at - 5, 5));
    }
    EXPECT_NEAR(sum, 100, 0.11);
    EXPECT_EQ(shell(in_folder("printf 'a dog' >text; fine_tune --from classifier --classify text"))
                  .output,
              "File      \"text\"\n" + told.output.substr(told.output.find('\n') + 1));
  }
  EXPECT_EQ(load_gpt(folder_ / "classifier").model->context(), 24U);  // it is a GPT, too
  EXPECT_EQ(shell(in_folder("fine_tune --from classifier --corpus corpus --epochs 1 --train head"))
                .status,
            0);
  EXPECT_EQ(
      shell(in_folder("fine_tune --from classifier --classify " + std::string(300, 'a'))).status,
      0);
  expect_refused(in_folder("fine_tune --from classifier --classify ''"), "expected a text or the ");
  expect_refused(in_folder(start + "--corpus corpus"), "not for --from with --examples");
  expect_refused(
      in_folder("mkdir kinds; " + start.substr(0, 21) + "--examples kinds --text-column text"),
      "--text-column is for a table, but kinds is a folder");
  expect_refused(in_folder("fine_tune --from gpt --classify 'a dog'"),
                 "gpt: is a GPT, but no classifier");
  expect_refused(in_folder(start + "--save new"), "--save is for --train ");
  expect_refused(in_folder(start + "--save gpt --train head"), "is written here and also read");
  expect_refused(in_folder("fine_tune --classify 'a dog'"), "--classify requires --from");
  expect_refused(in_folder(start + "--width 32"), " excludes --");
}

TEST_F(FineTune, KnowsTheTextOfTheRunThatItGoesOnFrom) {
  const std::string train = "train --stop-after 1 --sample 0 --width 8 --context 8 --corpus ";
  const std::string gpt = "--model gpt --heads 2 --layers 1 ";
  const Outcome made = shell(in_folder(
      train + "corpus " + gpt + "--save gpt; " + train + "corpus --save other; " + train +
      "corpus " + gpt +
      "--ngrams 2 --ngram-rows 9 --ngram-layers 0 --ngram-file table --save memory; tokenize "
      "--tokenizer char --corpus corpus --save char --output ids.bin corpus; " +
      train + "ids.bin " + gpt + "--tokenizer ./char --save ids"));
  ASSERT_EQ(made.status, 0) << made.output;
  const std::string start =
      concat("cd /; fine_tune --epochs 1 --train head --from ", folder_.path().string(), "/");
  const Outcome outcome = shell(start + "gpt");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_HAS(outcome.output, concat("Text      ", (folder_ / "corpus").string(), ", the first"));
  expect_refused(start + "gpt --save " + (folder_ / "corpus").string(), "and also read");
  expect_refused(start + "other", "other: is a run of model next-token, expected a GPT");
  expect_refused(start + "memory", "memory: fine_tune takes no tables in files");
  expect_refused(start + "ids", "ids.bin; give a text as --corpus, or --examples");
  expect_refused(in_folder("printf 'Z and Z' >z; fine_tune --from gpt --corpus z"),
                 "; --corpus takes another text, and --examples others");
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
      EXPECT_HAS(outcome.output, "1 are cut at 8 tokens");
      EXPECT_HAS(outcome.output, "\"\\x1b[31m\" \"a\"");
    }
  }
}

}  // namespace
