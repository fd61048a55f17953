// Checks that the bytes in core/tables/FORMAT.md are the bytes that are written.

#include "tests/test.hpp"
#include <rowgrad/core/base/hash.hpp>

namespace {

using Words = std::vector<std::uint64_t>;

Words words_of(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  Words words(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

void write_words(const std::filesystem::path& path, const Words& words) {
  const auto bytes = std::as_bytes(std::span(words));
  write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Returns lines of 16 bytes, formatted as in FORMAT.md, without lines of zeros.
std::string dump(const Words& words) {
  std::ostringstream text;
  text << std::hex << std::setfill('0');
  const auto bytes = std::as_bytes(std::span(words));
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    const auto line = bytes.subspan(at, std::min<std::size_t>(16, bytes.size() - at));
    if (std::ranges::all_of(line, [](std::byte byte) { return byte == std::byte{0}; })) continue;
    text << std::setw(4) << at;
    for (std::size_t i = 0; i < line.size(); ++i)
      text << (i % 8 == 0 ? " " : "") << std::setw(2) << std::to_integer<int>(line[i]);
    text << '\n';
  }
  return text.str();
}

std::uint64_t sum_of(std::span<const std::uint64_t> words, std::uint64_t seed = 0) {
  Checksum sum(seed);
  sum.add_bytes(std::as_bytes(words));
  return sum.value();
}

TEST(TableFormat, MatchesTheExample) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "words.table",
                              journal = folder / "words.table.undo-1";
  std::string id;
  {
    TableFile table(path, {.rows = 3, .width = 2, .slots = 1, .seed = 7});
    table.add_slot("momentum");
    const auto set = [&](const std::vector<real>& content) {
      const RecordWriter rows = table.modify(Ids32{1});
      std::ranges::copy(content, rows.content<real>(1));
      rows.note(1) = 1;
    };
    set({1, 2, 0.5, 0.25});
    table.checkpoint();
    id = table.checkpoint_id();
    std::filesystem::copy_file(path, folder / "at checkpoint");
    set({3});
  }
  // The identity is random, so it is replaced by the identity in the example.
  Words table = words_of(folder / "at checkpoint"), undo = words_of(journal);
  const std::uint64_t change = table[0x138 / 8] ^ 0x0123456789ABCDEF;
  for (std::uint64_t* word : {&table[0x138 / 8], &table[0x1058 / 8], &undo[1], &undo[0x160 / 8]})
    *word ^= change;
  undo[0x118 / 8] = sum_of(std::span(undo).subspan(1, 34));
  undo[0x128 / 8] = sum_of(std::span(undo).subspan(0x130 / 8), undo[0x118 / 8] + 0x120);

  const std::string page = read_file(ROWGRAD_TEST_DATA "/../../core/tables/FORMAT.md");
  for (const std::string& text : {dump(table), dump(undo), id}) EXPECT_HAS(page, text);
  write_words(path, table);
  write_words(journal, undo);
  const TableFile opened(path);
  EXPECT_EQ(opened.checkpoint_id(), id);
  EXPECT_EQ(opened.verify(), 1);
  EXPECT_EQ(opened.step(1), 1);
  std::vector<real> row(4);
  opened.read(1, row);
  EXPECT_EQ(row, std::vector<real>({1, 2, 0.5, 0.25}));
}

}  // namespace
