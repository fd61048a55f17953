#include <stdlib.h>

#include "tests/support/published_data.hpp"
#include "tests/support/shell.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/support/builtin_story.hpp>
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

// The script, with the SHA-256 of one short text for those of all files, and a curl that gives the
// file `served` and counts how often it was asked.
class FetchedTexts : public ::testing::Test {
 protected:
  FetchedTexts() {
    const std::string sha256 = shell("printf 'a tale' | sha256sum | tr -d ' -'").output;
    const std::string script = ROWGRAD_TEST_DATA "/../../examples/texts.sh";
    shell("sed -E 's/\\b[0-9a-f]{64}\\b/" + sha256.substr(0, 64) + "/' " + script + " >" +
          (folder / "texts.sh").string());
    write_file(folder / "curl",
               "#!/bin/sh\nwhile [ \"$1\" != --output ]; do shift; done\n"
               "echo $3 >>" +
                   (folder / "asked").string() + "\ncat " + (folder / "served").string() +
                   " >\"$2\"\n");
    write_file(folder / "served", "a tale");
    fs::permissions(folder / "curl", fs::perms::owner_all);
  }

  // The script in an empty cache, unless `variables` say otherwise.
  Outcome fetch(const std::string& variables = "", const std::string& arguments = "") {
    const std::string here = folder.path().string();
    return shell("cd " + here + "; export PATH=.:$PATH XDG_CACHE_HOME=" + here + "/cache; " +
                 variables + " bash texts.sh " + arguments);
  }

  std::size_t downloads() const {
    if (!fs::exists(folder / "asked")) return 0;
    const std::string asked = read_file(folder / "asked");
    return static_cast<std::size_t>(std::count(asked.begin(), asked.end(), '\n'));
  }

  void expect_refused(const Outcome& outcome, const std::string& words) const {
    EXPECT_EQ(outcome.status, 1);
    EXPECT_HAS(outcome.output, words);
  }

  const TemporaryFolder folder;
  const std::string kFailed = (folder / "cache/rowgrad/the-verdict.txt.failed").string();
};

TEST_F(FetchedTexts, AreKeptInTheCache) {
  const Outcome first = fetch();
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_HAS(first.output, "The Verdict, downloaded from https://raw.githubusercontent.com/");
  EXPECT_EQ(downloads(), 3U);
  for (const std::string name : {"the-verdict.txt", "vocab.bpe", "encoder.json"})
    EXPECT_EQ(read_file(folder / "cache/rowgrad" / name), "a tale");
  EXPECT_EQ(fetch().output, "");
  EXPECT_EQ(downloads(), 3U);
  write_file(folder / "cache/rowgrad/vocab.bpe", "damaged");
  EXPECT_EQ(fetch().status, 0);
  EXPECT_EQ(read_file(folder / "cache/rowgrad/vocab.bpe"), "a tale");
  EXPECT_EQ(downloads(), 4U);
}

TEST_F(FetchedTexts, AreExplained) {
  const Outcome help = fetch("", "--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_TRUE(help.output.starts_with("Fetches what others publish")) << help.output;
  EXPECT_TRUE(help.output.ends_with("nobody waits for a network again.\n")) << help.output;
}

TEST_F(FetchedTexts, OfTheUserAreNotFetched) {
  fs::create_directory(folder / "mine");
  for (const std::string name : {"the-verdict.txt", "vocab.bpe"})
    write_file(folder / "mine" / name, "my own");
  EXPECT_EQ(fetch("ROWGRAD_DATA=mine").status, 0);
  EXPECT_EQ(downloads(), 1U);
  fs::remove_all(folder / "cache");
  expect_refused(fetch("ROWGRAD_DATA=none"), "$ROWGRAD_DATA is none, which is no folder");
}

TEST_F(FetchedTexts, ArePutIntoAFolder) {
  fs::create_directory(folder / "mine");
  write_file(folder / "mine/vocab.bpe", "a tale");
  write_file(folder / "mine/the-verdict.txt", "my own");  // the tests need the published one
  const Outcome outcome = fetch("ROWGRAD_DATA=mine", "'a folder'");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_HAS(outcome.output, "GPT-2's vocab.bpe, from mine/vocab.bpe");
  EXPECT_EQ(downloads(), 2U);
  EXPECT_EQ(read_file(folder / "a folder/the-verdict.txt"), "a tale");
  EXPECT_EQ(fetch("unset XDG_CACHE_HOME;", "other").status, 0);  // without any cache
  EXPECT_EQ(downloads(), 5U);
  expect_refused(fetch("unset XDG_CACHE_HOME;"), "there is no cache without $HOME");
}

TEST_F(FetchedTexts, AreNotAskedForAgainWithinTenMinutesOfAFailure) {
  write_file(folder / "served", "something else");
  expect_refused(fetch(), "no longer holds the file with the known SHA-256");
  EXPECT_EQ(downloads(), 1U);
  EXPECT_FALSE(fs::exists(folder / "cache/rowgrad/the-verdict.txt"));
  expect_refused(fetch(), "its download failed less than ten minutes ago (");
  EXPECT_EQ(downloads(), 1U);
  write_file(folder / "curl", "#!/bin/sh\necho no network >&2\nexit 6\n");
  shell("touch -d '11 minutes ago' " + kFailed);
  expect_refused(fetch(), "is not in $ROWGRAD_DATA, not in " + (folder / "cache/rowgrad").string() +
                              ", and its download failed (no network)");
  expect_refused(fetch("export ROWGRAD_OFFLINE=1;"), "ROWGRAD_OFFLINE forbids its download");
}

TEST_F(FetchedTexts, AreGpt2sWeights) {
  EXPECT_EQ(fetch("", "--gpt2 weights").status, 0);
  EXPECT_EQ(read_file(folder / "weights/model.safetensors"), "a tale");
  EXPECT_EQ(fetch("", "--gpt2 weights").output, "");
  write_file(folder / "weights/model.safetensors", "a part");
  EXPECT_EQ(fetch("", "--gpt2 weights").status, 0);
  EXPECT_EQ(downloads(), 2U);
  expect_refused(fetch("", "--gpt2"), "usage: ");
  expect_refused(fetch("", "a b"), "usage: ");
}

}  // namespace
