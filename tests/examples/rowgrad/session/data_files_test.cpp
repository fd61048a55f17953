#include "tests/support/shell.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/session/data_files.hpp>

namespace {

TEST(BuiltinStory, EqualsTheFileInTheRepository) {
  EXPECT_EQ(kBuiltinStory, read_file(CommandFolder() / "story"));
}

class PublishedDataFiles : public PublishedData {};

TEST_F(PublishedDataFiles, AreFoundInFolderAndCache) {
  const std::string from = file("the-verdict.txt");
  EXPECT_EQ(find_corpus().title, "The Verdict");
  EXPECT_EQ(find_corpus().source, "The Verdict, from $ROWGRAD_DATA (" + from + ")");
  EXPECT_EQ(find_gpt2_files().merges.title, "GPT-2's vocab.bpe");
  EXPECT_EQ(find_gpt2_files().encoder.title, "GPT-2's encoder.json");

  const CommandFolder folder;
  const Outcome outcome = folder.shell(
      "mkdir -p cache/rowgrad && cp " + from +
      " cache/rowgrad && XDG_CACHE_HOME=$PWD/cache rowgrad train --stop-after 1 --sample-tokens 0");
  const std::string cached = folder / "cache/rowgrad/the-verdict.txt";
  EXPECT_HAS(outcome.output, "The Verdict, from the cache (" + cached + ")");
}

}  // namespace
