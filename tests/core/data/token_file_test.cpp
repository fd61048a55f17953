#include "tests/test.hpp"

namespace {

namespace fs = std::filesystem;

Vocabulary vocabulary(std::size_t size) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < size; ++i) tokens.push_back("t" + std::to_string(i));
  return Vocabulary(tokens);
}

template <class Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

// Returns the contents of a file as llm.c writes it.
std::string llmc(std::int32_t magic, std::int32_t version, std::int32_t count,
                 const std::string& ids) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of(header) + ids;
}

Ids32 all(const TokenFile& file) {
  Ids32 ids(file.size());
  file.read(0, ids);
  return ids;
}

class TokenFiles : public ::testing::Test {
 protected:
  fs::path written(const std::string& contents) {
    write_file(folder_ / "a.bin", contents);
    return folder_ / "a.bin";
  }

  std::string own(std::size_t size, const Ids32& ids) {
    TokenFileWriter writer(folder_ / "own.bin", vocabulary(size));
    writer.append(ids);
    writer.finish();
    return read_file(folder_ / "own.bin");
  }

  // Returns the contents of a file as rowgrad 0.2.0 wrote it.
  static std::string of_version_1(std::size_t size, const std::vector<std::uint16_t>& ids) {
    TokenFileHeader header;
    header.version = 1;
    header.bytes_per_id = 2;
    header.count = ids.size();
    header.vocabulary_size = size;
    LegacyChecksum hash, sum;
    const Vocabulary tokens = vocabulary(size);
    for (const std::string& token : tokens.tokens()) hash.add(token);
    for (const std::uint16_t id : ids) sum.add(std::uint64_t{id});
    header.vocabulary_hash = hash.value();
    header.checksum = sum.value();
    return bytes_of(std::vector{header}) + bytes_of(ids);
  }

  std::string refusal(const std::string& contents, const TokenFileOptions& options = {}) {
    const fs::path path = written(contents);
    const std::string message = error_of<std::runtime_error>([&] { TokenFile(path, options); });
    EXPECT_TRUE(message.starts_with(path.string() + ": ")) << message;
    return message.substr(std::min(message.size(), path.string().size() + 2));
  }

  TemporaryFolder folder_;
};

// The files in rowgrad's format have many blocks.
TEST_F(TokenFiles, AreReadInAllFormats) {
  Ids32 large(100'000);
  std::iota(large.begin(), large.end(), 0);
  Ids32 small = large;
  for (std::int32_t& id : small) id %= 65536;
  const std::string two = bytes_of(std::vector<std::uint16_t>(small.begin(), small.end()));
  const std::string four = bytes_of(large);
  struct Case {
    std::string contents;
    const Ids32& ids;
    std::size_t raw_bytes = 0;
  };
  const std::vector<Case> cases = {
      {own(65536, small), small},
      {own(65537, small), small},
      {own(100'000, large), large},
      {llmc(20240520, 1, 100'000, two), small},
      {llmc(20240801, 7, 100'000, four), large},
      {two, small, 2},
      {four, large, 4},
  };
  for (const Case& c : cases) {
    const TokenFile file(written(c.contents), {.raw_bytes = c.raw_bytes});
    EXPECT_EQ(all(file), c.ids);
    Ids32 part(2);
    file.read(65535, part);
    EXPECT_EQ(part, Ids32(c.ids.begin() + 65535, c.ids.begin() + 65537));
    EXPECT_NO_THROW(file.verify());
  }
  EXPECT_EQ(cases[0].contents.size(), 64 + 100'000 * 2U + 13 * 8 + 8);
  EXPECT_EQ(cases[1].contents.size(), 64 + 100'000 * 4U + 25 * 8 + 8);
}

TEST_F(TokenFiles, RejectIncompleteAndDamagedFiles) {
  const std::string good = own(10, {1, 2, 3});
  const auto with = [&](std::size_t offset, auto value) {
    std::string changed = good;
    std::memcpy(changed.data() + offset, &value, sizeof value);
    return changed;
  };
  EXPECT_EQ(refusal(""),
            "does not start with rowgrad's or llm.c's header; to read raw ids, set raw_bytes");
  EXPECT_EQ(refusal("a text"),
            "does not start with rowgrad's or llm.c's header; to read raw ids, set raw_bytes");
  EXPECT_EQ(refusal(good.substr(0, 63)), "is truncated: has 63 bytes, expected a header of 64");
  EXPECT_EQ(refusal(good.substr(0, 68)), "has 68 bytes, expected 86 for 3 ids");
  EXPECT_EQ(refusal(good + "a"), "has 87 bytes, expected 86 for 3 ids");
  EXPECT_EQ(refusal(with(8, 3)), "has version 3, expected 1 or 2");
  for (const std::size_t offset : {12, 16, 24, 32, 40, 48, 56})
    EXPECT_EQ(refusal(with(offset, 7)), "the header is damaged") << offset;
  EXPECT_EQ(refusal(with(0, 7), {.raw_bytes = 2}), "the header is damaged");
  EXPECT_EQ(refusal(with(good.size() - 8, 7)), "the end of the file is damaged");
  std::string old = of_version_1(10, {1, 2, 3});
  EXPECT_EQ(refusal(old.substr(0, 68)), "its header says 3 ids of 2 bytes, but 4 bytes follow");
  old[12] = 3;
  EXPECT_EQ(refusal(old), "has ids of 3 bytes, expected 2 or 4");
  EXPECT_EQ(refusal("abc", {.raw_bytes = 2}), "has 3 bytes, expected a multiple of 2");
  EXPECT_EQ(refusal(llmc(20240520, 7, 0, "")),
            "has llm.c's magic 20240520 and version 7, expected version 1");
  EXPECT_EQ(refusal(llmc(20240801, 7, 1, "ab")),
            "its header says 1 ids of 4 bytes, but 2 bytes follow");
  EXPECT_EQ(refusal(llmc(20240520, 1, 0, "").substr(0, 1023)),
            "is truncated: has 1023 bytes, expected a header of 1024");
  EXPECT_EQ(refusal(llmc(20240522, 1, 0, "")),  // llm.c's evaluation files
            "does not start with rowgrad's or llm.c's header; to read raw ids, set raw_bytes");
  EXPECT_INVALID("TokenFile: raw_bytes is 3, expected 0, 2 or 4",
                 TokenFile(written(good), {.raw_bytes = 3}));
}

TEST_F(TokenFiles, RejectAnotherVocabulary) {
  const Vocabulary eleven = vocabulary(11);
  EXPECT_EQ(refusal(own(10, {1}), {.vocabulary = &eleven}),
            "its vocabulary of 10 tokens differs from the tokenizer's vocabulary of 11 tokens");
  EXPECT_NE(Vocabulary({"a", "b"}, {1}).hash(), Vocabulary({"a", "b"}).hash());
  EXPECT_NE(Vocabulary({"a", "bc"}).hash(), Vocabulary({"ab", "c"}).hash());
}

TEST_F(TokenFiles, RejectIdsOutsideTheVocabularyWhenRead) {
  const Vocabulary ten = vocabulary(10);
  const TokenFile file(written(bytes_of(std::vector<std::uint16_t>{9, 0, 10})),
                       {.raw_bytes = 2, .vocabulary = &ten});
  Ids32 ids(2);
  EXPECT_NO_THROW(file.read(0, ids));
  const std::string message =
      file.path().string() + ": id 10 at index 2 is out of range: the vocabulary has 10 tokens";
  EXPECT_ERROR(std::runtime_error, message, file.read(1, ids));
  EXPECT_ERROR(std::runtime_error, message, file.verify());
  const TokenFile large(written(bytes_of(std::vector<std::uint32_t>{0x80000000})),
                        {.raw_bytes = 4});
  EXPECT_THROW(large.verify(), std::runtime_error);
  EXPECT_INVALID("TokenFile: ids [2, 4) are out of range: " + file.path().string() + " has 3 ids",
                 file.read(2, ids));
}

TEST_F(TokenFiles, DetectADamagedIdWhenItsBlockIsRead) {
  Ids32 ids(20'000);  // 3 blocks of up to 8,192 ids
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 10);
  std::string damaged = own(10, ids);
  damaged[64 + 2 * 10'000] ^= 1;
  const TokenFile file(written(damaged));
  Ids32 read(4);
  file.read(8192 - 4, read);
  const std::string message =
      file.path().string() + ": the block of ids from index 8192 on is damaged";
  EXPECT_ERROR(std::runtime_error, message, file.read(8192 - 1, read));
  EXPECT_ERROR(std::runtime_error, message, file.verify());
  file.read(16384, read);
}

TEST_F(TokenFiles, DetectABlockOfAnotherFile) {
  const std::size_t block = 3 * 2 + 8;  // including its checksum
  const TokenFile file(
      written(own(10, {1, 2, 3}).replace(64, block, own(10, {1, 2, 4}).substr(64, block))));
  EXPECT_EQ(all(file), (Ids32{1, 2, 4}));
  EXPECT_ERROR(
      std::runtime_error,
      file.path().string() + ": the ids are damaged: their checksum differs from the header",
      file.verify());
}

TEST_F(TokenFiles, AreReadAndVerifiedInVersion1) {
  const Vocabulary ten = vocabulary(10);
  std::string contents = of_version_1(10, {1, 2, 3});
  const TokenFile file(written(contents), {.vocabulary = &ten});
  EXPECT_EQ(all(file), (Ids32{1, 2, 3}));
  EXPECT_NO_THROW(file.verify());
  contents[64] = 4;
  const TokenFile damaged(written(contents));
  EXPECT_ERROR(
      std::runtime_error,
      file.path().string() + ": the ids are damaged: their checksum differs from the header",
      damaged.verify());
}

TEST_F(TokenFiles, HaveDistinctFingerprints) {
  const auto raw = [&](const std::vector<std::uint16_t>& ids) {
    return TokenFile(written(bytes_of(ids)), {.raw_bytes = 2}).fingerprint();
  };
  std::vector<std::uint16_t> long_text(100'000), other_text = long_text;
  other_text[99'000] = 1;
  const std::set<std::uint64_t> distinct{raw({}),           raw({1, 2, 3}), raw({1, 2, 4}),
                                         raw({1, 2, 3, 3}), raw(long_text), raw(other_text)};
  EXPECT_EQ(distinct.size(), 6U);
  EXPECT_EQ(raw({1, 2, 3}), raw({1, 2, 3}));
  const auto hash = [&](const Ids32& ids) {
    return TokenFile(written(own(10, ids))).fingerprint();
  };
  EXPECT_NE(hash({1, 2, 3}), hash({1, 3, 2}));
}

TEST_F(TokenFiles, AppearOnlyWhenComplete) {
  const Vocabulary ten = vocabulary(10);
  const fs::path path = folder_ / "new.bin";
  TokenFileWriter(path, ten).append(Ids32{1, 2});  // abandoned without finish()
  TokenFileWriter writer(path, ten);
  writer.append(Ids32{3});
  EXPECT_INVALID("TokenFileWriter: id 10 is out of range: the vocabulary has 10 tokens",
                 writer.append(Ids32{4, 10}));
  EXPECT_INVALID("TokenFileWriter: id -1 is out of range: the vocabulary has 10 tokens",
                 writer.append(Ids32{-1}));
  writer.append(Ids32{4, 5});
  EXPECT_EQ(writer.count(), 3U);
  EXPECT_FALSE(fs::exists(path));
  writer.finish();
  const TokenFile file(path, {.vocabulary = &ten});
  EXPECT_EQ(all(file), (Ids32{3, 4, 5}));
  EXPECT_NO_THROW(file.verify());
}

}  // namespace
