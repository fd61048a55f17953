#include <stdlib.h>

#include "tests/support/published_data.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/support/data_files.hpp>

namespace {

namespace fs = std::filesystem;

// Sets environment variables for a test; at its end, the previous values are restored.
class Environment {
 public:
  ~Environment() {
    for (const auto& [name, value] : before_) assign(name, value);
  }

  void set(const std::string& name, const std::optional<std::string>& value) {
    const char* current = std::getenv(name.c_str());
    before_.try_emplace(name, current ? std::optional<std::string>(current) : std::nullopt);
    assign(name, value);
  }

 private:
  static void assign(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }

  std::map<std::string, std::optional<std::string>> before_;
};

// Only an empty cache folder is set.
class DataFiles : public ::testing::Test {
 protected:
  DataFiles() {
    environment.set("ROWGRAD_DATA", std::nullopt);
    environment.set("XDG_CACHE_HOME", folder.path());
    environment.set("HOME", std::nullopt);
  }

  std::string unavailable(const std::string& title, const std::string& place) const {
    return title + " is not in $ROWGRAD_DATA and not in the cache (" + place +
           "); examples/texts.sh (installed in share/doc/rowgrad) fetches it";
  }

  const TemporaryFolder folder;
  const TemporaryFolder user;
  Environment environment;
};

TEST_F(DataFiles, OfTheUserAreUsedWhateverTheyHold) {
  const std::string path = user / "the-verdict.txt";
  environment.set("ROWGRAD_DATA", user.path());
  write_file(path, "an edition of one's own");
  const DataFile found = find_corpus();
  EXPECT_EQ(found.title, "the-verdict.txt");
  EXPECT_EQ(found.source, "the-verdict.txt, from $ROWGRAD_DATA (" + path +
                              "); it is not The Verdict as published");
  EXPECT_EQ(found.contents, "an edition of one's own");
}

TEST_F(DataFiles, OfTheUserAreNotPassedOverWhenTheyAreOfNoUse) {
  environment.set("ROWGRAD_DATA", user / "missing");
  EXPECT_ERROR(std::runtime_error,
               "$ROWGRAD_DATA is " + (user / "missing").string() + ", which is no folder",
               find_corpus());
  environment.set("ROWGRAD_DATA", user.path());
  write_file(user / "the-verdict.txt", "");
  EXPECT_ERROR(std::runtime_error, (user / "the-verdict.txt").string() + " is empty",
               find_corpus());
}

TEST_F(DataFiles, HaveTheChosenCorpusAndNoSubstituteForIt) {
  const std::string path = folder / "mine.txt";
  write_file(path, "mine");
  const DataFile found = find_corpus(path);
  EXPECT_EQ(found.title, "mine.txt");
  EXPECT_EQ(found.source, path);
  EXPECT_EQ(found.contents, "mine");
  const std::string missing = folder / "missing.txt";
  EXPECT_ERROR(std::runtime_error, "cannot read " + missing + ": No such file or directory",
               find_corpus(missing));
  const std::string empty = folder / "empty.txt";
  write_file(empty, "");
  EXPECT_ERROR(std::runtime_error, empty + " is empty", find_corpus(empty));
}

TEST_F(DataFiles, EndWithTheBuiltInStory) {
  const auto expect_story = [&](const std::string& place) {
    const DataFile found = find_corpus();
    EXPECT_EQ(found.title, "The Slow Clock");
    EXPECT_EQ(found.contents, kBuiltinStory);
    EXPECT_EQ(found.source, "The Slow Clock, the story that comes with rowgrad (" +
                                unavailable("The Verdict", place) + ")");
  };
  expect_story(folder / "rowgrad/the-verdict.txt");
  fs::create_directory(folder / "rowgrad");
  write_file(folder / "rowgrad/the-verdict.txt", "not all of it");  // which is not as published
  expect_story(folder / "rowgrad/the-verdict.txt");
  environment.set("XDG_CACHE_HOME", "relative");
  expect_story("no $HOME");
  environment.set("HOME", folder / "home");
  expect_story(folder / "home/.cache/rowgrad/the-verdict.txt");
}

TEST(BuiltinStory, IsPlainText) {
  EXPECT_GE(kBuiltinStory.size(), 15'000u);
  EXPECT_TRUE(kBuiltinStory.starts_with("It was the guards who found it out."));
  EXPECT_TRUE(kBuiltinStory.ends_with("how many of them come.\n"));
  for (const char byte : kBuiltinStory)
    ASSERT_TRUE(byte == '\n' || (byte >= ' ' && byte <= '~')) << static_cast<int>(byte);
}

TEST_F(DataFiles, HaveGpt2sVocabulary) {
  EXPECT_EQ(error_of<Unavailable>([] { find_gpt2_files(); }),
            unavailable("GPT-2's vocab.bpe", folder / "rowgrad/vocab.bpe"));
  environment.set("ROWGRAD_DATA", user.path());
  write_file(user / "vocab.bpe", "merges");
  write_file(user / "encoder.json", "{}");
  const Gpt2Files found = find_gpt2_files();
  EXPECT_EQ(found.merges.contents, "merges");
  EXPECT_EQ(found.encoder.contents, "{}");
}

class PublishedDataFiles : public PublishedData {};

TEST_F(PublishedDataFiles, AreFoundAsTheyWerePublished) {
  const std::string from = file("the-verdict.txt");
  EXPECT_EQ(find_corpus().source, "The Verdict, from $ROWGRAD_DATA (" + from + ")");
  EXPECT_EQ(find_gpt2_files().merges.title, "GPT-2's vocab.bpe");
  EXPECT_EQ(find_gpt2_files().encoder.title, "GPT-2's encoder.json");

  const TemporaryFolder folder;
  fs::create_directory(folder / "rowgrad");
  fs::copy_file(from, folder / "rowgrad/the-verdict.txt");
  Environment environment;
  environment.set("ROWGRAD_DATA", std::nullopt);
  environment.set("XDG_CACHE_HOME", folder.path());
  const DataFile found = find_corpus();
  EXPECT_EQ(found.title, "The Verdict");
  EXPECT_EQ(found.source,
            "The Verdict, from the cache (" + (folder / "rowgrad/the-verdict.txt").string() + ")");
}

}  // namespace
