#include <stdlib.h>

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

const std::string kContents = "Once, and only once.\n";

// Only an empty cache folder is set; the network is a function that counts its calls.
class DataFiles : public ::testing::Test {
 protected:
  DataFiles() {
    environment.set("ROWGRAD_DATA", std::nullopt);
    environment.set("ROWGRAD_OFFLINE", std::nullopt);
    environment.set("XDG_CACHE_HOME", folder.path());
    environment.set("HOME", std::nullopt);
  }

  DataFile find() { return find_published(file, fetch); }
  std::string why_unavailable() {
    return error_of<Unavailable>([this] { find(); });
  }

  const TemporaryFolder folder;
  Environment environment;
  const fs::path cached = folder / "rowgrad/tale.txt";
  const fs::path stamp = folder / "rowgrad/tale.txt.failed";
  const PublishedFile file = {.name = "tale.txt",
                              .title = "A Tale",
                              .url = "https://tales.example/tale.txt",
                              .sha256 = sha256(kContents)};
  const std::string nowhere =
      "A Tale is not in $ROWGRAD_DATA, not in the cache (" + cached.string() + "), and ";

  int downloads = 0;
  std::string served = kContents;  // empty: the network is down
  const Download fetch = [this](const std::string&) {
    ++downloads;
    if (served.empty()) throw std::runtime_error("no network");
    return served;
  };
};

TEST(Sha256, AgreesWithThePublishedExamples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(DataFiles, ComeFromTheUsersFolderFirst) {
  const TemporaryFolder user;
  const std::string path = user / "tale.txt";
  environment.set("ROWGRAD_DATA", user.path());
  write_file(path, kContents);

  const DataFile found = find();
  EXPECT_EQ(found.title, "A Tale");
  EXPECT_EQ(found.source, "A Tale, from $ROWGRAD_DATA (" + path + ")");
  EXPECT_EQ(found.contents, kContents);
  EXPECT_EQ(downloads, 0);
}

TEST_F(DataFiles, OfTheUserAreUsedWhateverTheyHold) {
  const TemporaryFolder user;
  const std::string path = user / "tale.txt";
  environment.set("ROWGRAD_DATA", user.path());
  write_file(path, "another one");

  const DataFile found = find();
  EXPECT_EQ(found.title, "tale.txt");
  EXPECT_EQ(found.source, "tale.txt, from $ROWGRAD_DATA (" + path +
                              "); its SHA-256 is not that of A Tale as published");
  EXPECT_EQ(found.contents, "another one");
}

TEST_F(DataFiles, OfTheUserAreNotPassedOverWhenTheyAreOfNoUse) {
  const TemporaryFolder user;
  environment.set("ROWGRAD_DATA", user / "missing");
  EXPECT_EQ(error_of<std::runtime_error>([this] { find(); }),
            "$ROWGRAD_DATA is " + (user / "missing").string() + ", which is no folder");
  environment.set("ROWGRAD_DATA", user.path());
  write_file(user / "tale.txt", "");
  EXPECT_EQ(error_of<std::runtime_error>([this] { find(); }),
            (user / "tale.txt").string() + " is empty");
  EXPECT_EQ(downloads, 0);
}

TEST_F(DataFiles, AreDownloadedOnceAndKept) {
  const TemporaryFolder user;  // has no such file
  environment.set("ROWGRAD_DATA", user.path());

  const DataFile first = find();
  EXPECT_EQ(first.source,
            "A Tale, downloaded from https://tales.example/tale.txt, kept as " + cached.string());
  EXPECT_EQ(first.contents, kContents);

  const DataFile second = find();
  EXPECT_EQ(second.title, "A Tale");
  EXPECT_EQ(second.source, "A Tale, from the cache (" + cached.string() + ")");
  EXPECT_EQ(second.contents, kContents);
  EXPECT_EQ(downloads, 1);
}

TEST_F(DataFiles, AreCachedUnderHomeWhereNothingElseIsSaid) {
  environment.set("HOME", folder / "home");
  for (const char* cache : {"", "relative"}) {
    environment.set("XDG_CACHE_HOME", cache);
    find();
    EXPECT_EQ(read_file(folder / "home/.cache/rowgrad/tale.txt"), kContents);
  }
  EXPECT_EQ(downloads, 1);
}

TEST_F(DataFiles, AreUsedEvenWhereNothingCanBeKept) {
  environment.set("XDG_CACHE_HOME", std::nullopt);
  EXPECT_EQ(find().source, "A Tale, downloaded from https://tales.example/tale.txt");
  environment.set("XDG_CACHE_HOME", folder.path());
  write_file(folder / "rowgrad", "a file where the folder should be");
  EXPECT_EQ(find().source, "A Tale, downloaded from https://tales.example/tale.txt");
  EXPECT_EQ(downloads, 2);
}

TEST_F(DataFiles, AreDownloadedAnewWhenTheCacheIsDamaged) {
  fs::create_directory(folder / "rowgrad");
  write_file(cached, "Once, and onl");
  EXPECT_EQ(find().contents, kContents);
  EXPECT_EQ(read_file(cached), kContents);

  write_file(cached, "Once, and onl");
  served.clear();
  EXPECT_EQ(why_unavailable(), nowhere + "its download failed (no network)");
}

TEST_F(DataFiles, AreNotKeptWhenTheChecksumIsWrong) {
  served = "something else";
  EXPECT_EQ(why_unavailable(),
            nowhere +
                "its download failed (https://tales.example/tale.txt no longer holds the "
                "file with the known SHA-256)");
  EXPECT_FALSE(fs::exists(cached));
}

TEST_F(DataFiles, AreNotAskedForAgainWithinTenMinutesOfAFailure) {
  using std::chrono::minutes;
  const auto set_age = [this](minutes age) {
    fs::last_write_time(stamp, fs::file_time_type::clock::now() - age);
  };
  served.clear();
  EXPECT_EQ(why_unavailable(), nowhere + "its download failed (no network)");
  EXPECT_EQ(why_unavailable(),
            nowhere + "its download failed less than ten minutes ago (no network)");
  EXPECT_EQ(downloads, 1);
  set_age(minutes(9));
  why_unavailable();
  EXPECT_EQ(downloads, 1);
  set_age(minutes(10));
  why_unavailable();
  EXPECT_EQ(downloads, 2);
  set_age(minutes(-60));  // the clock was wrong
  why_unavailable();
  EXPECT_EQ(downloads, 3);

  set_age(minutes(11));
  served = kContents;
  EXPECT_EQ(find().contents, kContents);
  EXPECT_FALSE(fs::exists(stamp));
}

TEST_F(DataFiles, StayOffTheNetworkWhenTold) {
  environment.set("ROWGRAD_OFFLINE", "1");
  EXPECT_EQ(why_unavailable(), nowhere + "ROWGRAD_OFFLINE forbids its download");
  EXPECT_EQ(downloads, 0);
  EXPECT_FALSE(fs::exists(stamp));
  environment.set("ROWGRAD_OFFLINE", "0");
  EXPECT_EQ(find().contents, kContents);
}

TEST_F(DataFiles, HaveTheChosenCorpus) {
  const std::string path = folder / "mine.txt";
  write_file(path, "mine");
  const DataFile found = find_corpus(path, fetch);
  EXPECT_EQ(found.title, "mine.txt");
  EXPECT_EQ(found.source, path);
  EXPECT_EQ(found.contents, "mine");
}

TEST_F(DataFiles, HaveNoSubstituteForTheChosenCorpus) {
  const std::string missing = folder / "missing.txt";
  EXPECT_ERROR(std::runtime_error, "cannot read " + missing + ": No such file or directory",
               find_corpus(missing, fetch));
  const std::string empty = folder / "empty.txt";
  write_file(empty, "");
  EXPECT_ERROR(std::runtime_error, empty + " is empty", find_corpus(empty, fetch));
  EXPECT_EQ(downloads, 0);
}

TEST_F(DataFiles, HaveTheVerdictFromTheUsersFolder) {
  const TemporaryFolder user;
  environment.set("ROWGRAD_DATA", user.path());
  write_file(user / "the-verdict.txt", "an edition of one's own");
  EXPECT_EQ(find_corpus({}, fetch).contents, "an edition of one's own");
  EXPECT_EQ(downloads, 0);
}

TEST_F(DataFiles, EndWithTheBuiltInStory) {
  served.clear();
  const DataFile found = find_corpus({}, fetch);
  EXPECT_EQ(found.title, "The Slow Clock");
  EXPECT_EQ(found.contents, kBuiltinStory);
  EXPECT_EQ(found.source,
            "The Slow Clock, the story that comes with rowgrad: The Verdict is not in "
            "$ROWGRAD_DATA, not in the cache (" +
                (folder / "rowgrad/the-verdict.txt").string() +
                "), and its download failed (no network)");
}

TEST(BuiltinStory, IsPlainText) {
  EXPECT_GE(kBuiltinStory.size(), 15'000u);
  EXPECT_TRUE(kBuiltinStory.starts_with("It was the guards who found it out."));
  EXPECT_TRUE(kBuiltinStory.ends_with("how many of them come.\n"));
  for (const char byte : kBuiltinStory)
    ASSERT_TRUE(byte == '\n' || (byte >= ' ' && byte <= '~')) << static_cast<int>(byte);
}

TEST_F(DataFiles, HaveGpt2sVocabulary) {
  const TemporaryFolder user;
  environment.set("ROWGRAD_DATA", user.path());
  write_file(user / "vocab.bpe", "merges");
  write_file(user / "encoder.json", "{}");
  const Gpt2Files found = find_gpt2_files(fetch);
  EXPECT_EQ(found.merges.contents, "merges");
  EXPECT_EQ(found.encoder.contents, "{}");
}

TEST_F(DataFiles, SayHowToGetGpt2sVocabulary) {
  served.clear();
  EXPECT_EQ(
      error_of<Unavailable>([this] { find_gpt2_files(fetch); }),
      "GPT-2's vocab.bpe is not in $ROWGRAD_DATA, not in the cache (" +
          (folder / "rowgrad/vocab.bpe").string() +
          "), and its download failed (no network). Save "
          "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe (SHA-256 "
          "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5) and "
          "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json "
          "(SHA-256 196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783) in a "
          "folder and set ROWGRAD_DATA to that folder, or choose another tokenizer.");
}

TEST(Download, TakesNothingButHttps) {
  for (const char* url : {"file:///etc/hostname", "http://localhost/"}) {
    const std::string error = error_of<std::runtime_error>([url] { download(url); });
    // libcurl's words differ from version to version.
    EXPECT_HAS(error, "Protocol");
  }
}

}  // namespace
