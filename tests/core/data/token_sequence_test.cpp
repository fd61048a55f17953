#include "tests/test.hpp"

namespace {

Ids32 consecutive(std::size_t count, std::int32_t first = 0) {
  Ids32 ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

class TokenSources : public ::testing::Test {
 protected:
  // Returns the ids 0 … 29 in files of these sizes.
  TokenSequence in_files(const std::vector<std::size_t>& sizes) {
    std::vector<std::string> tokens;
    for (int i = 0; i < 30; ++i) tokens.push_back(std::to_string(i));
    std::vector<TokenFile> files;
    std::size_t first = 0;
    for (const std::size_t size : sizes) {
      const auto path = folder_ / (std::to_string(files.size()) + ".bin");
      TokenFileWriter writer(path, Vocabulary(tokens));
      writer.append(consecutive(size, static_cast<std::int32_t>(first)));
      writer.finish();
      files.emplace_back(path);
      first += size;
    }
    return TokenSequence(std::move(files));
  }

  TemporaryFolder folder_;
};

TEST_F(TokenSources, ReadAcrossFiles) {
  for (const TokenSequence& source : {TokenSequence(to_ids(consecutive(30))), in_files({30}),
                                      in_files({10, 1, 0, 0, 4, 15}), in_files({0, 29, 1, 0})}) {
    ASSERT_EQ(source.size(), 30U);
    EXPECT_EQ(values(source.ids()), consecutive(30));
    for (std::size_t begin = 0; begin <= 30; ++begin)
      for (std::size_t end = begin; end <= 30; ++end) {
        const TokenSequence part = source.slice(begin, end - begin);
        const Ids32 expected = consecutive(end - begin, static_cast<std::int32_t>(begin));
        ASSERT_EQ(values(part.ids()), expected);
        Ids32 ids(end - begin);
        source.read(begin, ids);
        ASSERT_EQ(ids, expected);
      }
  }
}

TEST_F(TokenSources, HaveTheChecksumOfTheirIds) {
  const TokenSequence whole = to_ids(consecutive(30));
  EXPECT_EQ(in_files({10, 1, 0, 0, 4, 15}).checksum(), whole.checksum());
  EXPECT_NE(whole.slice(0, 29).checksum(), whole.checksum());
  EXPECT_EQ(whole.slice(3, 9).checksum(), TokenSequence(to_ids(consecutive(9, 3))).checksum());
  // In long sequences, the checksum covers the first ids, the last ids and a sample of the others.
  for (const std::size_t size : {std::size_t{1} << 20, std::size_t{3} << 20}) {
    Ids ids = Ids::from_shape({size});
    std::ranges::fill(ids, 7);
    const std::uint64_t before = TokenSequence(ids).checksum();
    for (const std::size_t changed : {std::size_t{0}, size / 2, size - 1}) {
      Ids others = ids;
      const std::size_t count = std::min(size - changed, size >> 8);
      std::fill_n(others.data() + changed, count, 8);
      EXPECT_NE(TokenSequence(others).checksum(), before) << changed;
    }
  }
}

TEST_F(TokenSources, RejectInvalidRangesAndFiles) {
  const TokenSequence source = in_files({10, 20});
  Ids32 ids(5);
  EXPECT_INVALID("TokenSequence::read: ids [26, 31) are out of range: there are 30 ids",
                 source.read(26, ids));
  EXPECT_INVALID("TokenSequence::read: ids [6, 11) are out of range: there are 10 ids",
                 source.slice(5, 10).read(6, ids));
  EXPECT_INVALID("TokenSequence::slice: ids [31, 31) are out of range: there are 30 ids",
                 source.slice(31, 0));
  EXPECT_THROW(source.slice(1, ~std::uint64_t{0}), std::invalid_argument);
  EXPECT_INVALID("TokenSequence: there are no files, expected at least one",
                 TokenSequence(std::vector<TokenFile>{}));
  EXPECT_INVALID("TokenSequence: ids has shape [2, 2], expected rank 1",
                 TokenSequence(Ids{{1, 2}, {3, 4}}));
  TokenFileWriter writer(folder_ / "2.bin", Vocabulary({"another"}));
  writer.finish();
  std::vector<TokenFile> files;
  for (const char* name : {"0.bin", "2.bin"}) files.emplace_back(folder_ / name);
  EXPECT_ERROR_WITH(std::runtime_error, "2.bin: has a different vocabulary than ",
                    TokenSequence{std::move(files)});
}

TEST_F(TokenSources, ReadOnlyTheWindowsOfASlice) {
  std::string ids(60, '\0');
  ids[2 * 25] = 9;  // an id outside the vocabulary
  write_file(folder_ / "raw.bin", ids);
  const Vocabulary vocabulary({"a", "b"});
  const auto loop = [&](std::size_t index) {
    std::vector<TokenFile> files;
    files.emplace_back(folder_ / "raw.bin",
                       TokenFileOptions{.raw_bytes = 2, .vocabulary = &vocabulary});
    DataLoader loader(TokenWindows(TokenSequence(std::move(files)), {.context = 4, .stride = 5}),
                      {.batch = 6});
    for (const Batch& batch : loader.epoch(0, 0, {index, 2})) EXPECT_EQ(batch.rows(), 3U);
  };
  EXPECT_NO_THROW(loop(0));
  EXPECT_THROW(loop(1), std::runtime_error);
}

TEST_F(TokenSources, RejectFilesThatChangedAfterOpening) {
  DataLoader loader(TokenWindows(in_files({30}), {.context = 4, .stride = 4}), {.batch = 2});
  for (const Batch& batch : loader.epoch(0)) EXPECT_EQ(batch.inputs().shape(1), 4U);
  std::filesystem::create_hard_link(folder_ / "0.bin", folder_ / "kept");
  write_file(folder_ / "0.bin", "another file of this name");
  EXPECT_NO_THROW(loader.epoch(0));
  std::filesystem::resize_file(folder_ / "kept", 70);
  EXPECT_ERROR(std::runtime_error,
               (folder_ / "0.bin").string() + ": was changed after it was opened", loader.epoch(0));
}

}  // namespace
