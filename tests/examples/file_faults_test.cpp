// The programs and what may happen to their files: closed standard files, kills, damage, and files
// of others in the places of theirs.

#include "tests/support/shell.hpp"
#include "tests/test.hpp"

namespace {

class FileFaults : public ::testing::Test {
 protected:
  std::string in_folder(const std::string& command) const {
    return concat(
        "cd ", folder_.path().string(), "; story=", ROWGRAD_TEST_DATA,
        "/../../examples/data/the-slow-clock.txt; ngram='ngram_table --rows 2000 --corpus "
        "'$story; encode='tokenize --tokenizer char --save char.json --corpus '$story; ",
        command);
  }

  std::string output_of(const std::string& command, int status = 0) const {
    const Outcome outcome = shell(in_folder(command));
    EXPECT_EQ(outcome.status, status) << command << ":\n" << outcome.output;
    return outcome.output;
  }

  // What a table ends with does depend on all of its bits.
  std::string end_of(const std::string& command) const {
    const std::string output = output_of(command);
    EXPECT_HAS(output, "Sample ");
    return output.substr(std::min(output.size(), output.find("Sample ")));
  }

  TemporaryFolder folder_;
};

TEST_F(FileFaults, WhatIsPrintedGoesIntoNoFileIfAStandardFileIsClosed) {
  const std::string expected = end_of("$ngram --table expected --steps 4 --save-every 1");
  output_of("$encode --output expected.bin $story");
  for (const std::string closed : {"<&-", ">&-", "2>&-", "<&- >&- 2>&-"}) {
    const int status = (' ' + closed).find(" >&-") != closed.npos ? 1 : 0;
    output_of("rm -f t t.* ids.bin ck; $ngram --table t --steps 2 --save-every 1 " + closed,
              status);
    EXPECT_HAS(output_of("ngram_table --table t --verify"), "rows, as they were written");
    EXPECT_EQ(end_of("$ngram --table t --steps 4 --save-every 1"), expected) << closed;
    output_of("$encode --output ids.bin $story " + closed, status);
    output_of("cmp ids.bin expected.bin && tokenize --verify ids.bin");
    output_of("train --corpus $story --stop-after 2 --sample 0 --save ck " + closed, status);
    output_of("train --corpus $story --resume ck --stop-after 3 --sample 0");
  }
}

TEST_F(FileFaults, ATableGoesOnIfItsProgramEndedBeforeItSavedAnything) {
  const std::string expected = end_of("$ngram --table expected --steps 4 --save-every 1");
  // Between the table's first checkpoint and the state that belongs to it.
  expect_refused(in_folder("ln -s none/t.run t.run; $ngram --table t --steps 4 --save-every 1"),
                 "cannot write");
  EXPECT_EQ(end_of("rm t.run; $ngram --table t --steps 4 --save-every 1"), expected);
  // By a signal, at the first byte that is written.
  const Outcome killed =
      shell(in_folder("ulimit -c 0; ulimit -f 0; exec $ngram --table k --steps 4 --save-every 1"));
  EXPECT_GT(killed.status, 256) << killed.output;
  EXPECT_EQ(end_of("$ngram --table k --steps 4 --save-every 1"), expected);
  EXPECT_EQ(output_of("echo k*"), "k k.run k.undo-3 k.undo-4\n");
}

TEST_F(FileFaults, ATableIsVerified) {
  output_of("$ngram --table t --steps 2");
  std::string table = read_file(folder_ / "t");
  const auto value = std::find_if(table.begin() + 4096, table.end(), [](char c) { return c != 0; });
  ASSERT_NE(value, table.end());
  *value = static_cast<char>(*value ^ 1);
  write_file(folder_ / "t", table);
  expect_refused(in_folder("ngram_table --table t --verify"),
                 "1 row is damaged, the first is row ");
  expect_refused(in_folder("ngram_table --table none --verify"), "there is no none");
}

TEST_F(FileFaults, AFileOfIdsIsWholeOrNotThere) {
  output_of("$encode --output ids.bin $story && cp ids.bin before");
  // By a signal, at the first block that is written, and then without one.
  const std::string encode = "tokenize --tokenizer char.json --output ids.bin $story $story";
  const Outcome killed = shell(in_folder("ulimit -c 0; ulimit -f 1; exec " + encode));
  EXPECT_GT(killed.status, 256) << killed.output;
  output_of("cmp ids.bin before && ls ids.bin.*.rowgrad.tmp");
  output_of(encode);
  EXPECT_EQ(output_of("echo ids.*"), "ids.bin\n");
  output_of("tokenize --verify ids.bin");
}

TEST_F(FileFaults, AreSaidInWords) {
  const std::string name(300, 'n');
  expect_refused(in_folder("tokenize --tokenizer char --corpus $story </"),
                 "cannot read standard input: Is a directory");
  expect_refused(in_folder("$ngram --table " + name), "cannot read " + name);
  expect_refused(in_folder("ln -s loop loop; $ngram --table loop/t"),
                 "cannot read loop/t.run: Too many levels of symbolic links");
  expect_refused(in_folder("train --model gpt --gpt2 " + name), "File name too long");
  expect_refused(in_folder("ROWGRAD_DATA=" + name + " train"), "which is no folder");
  expect_refused(in_folder("train --corpus $story --learning-rate 1e38 --stop-after 9"),
                 "the loss became nan at step");
}

}  // namespace
