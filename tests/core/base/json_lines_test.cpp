#include "tests/test.hpp"
#include <rowgrad/core/base/json_lines.hpp>

namespace {

TEST(JsonLines, KeepsIntactLinesAndDropsAnIncompleteEnd) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "lines";
  {
    JsonLines lines(path);
    EXPECT_EQ(lines.first_line(), "");
    EXPECT_ERROR_WITH(std::runtime_error, "is already open", JsonLines again(path));
    lines.append(R"({"a":1})");
    lines.append(R"({"a":2,"b":"x"})");
  }
  const std::string whole = read_file(path);
  const std::size_t first = whole.find('\n') + 1;
  EXPECT_EQ(json::parse(whole.substr(first))["b"], "x");
  EXPECT_TRUE(is_whole_line(whole.substr(0, first - 1)));
  EXPECT_FALSE(is_whole_line(whole.substr(0, first)));
  for (std::size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    write_file(path, whole.substr(0, bytes));
    EXPECT_EQ(JsonLines(path).bytes(), bytes == whole.size() ? bytes : bytes < first ? 0 : first);
    EXPECT_EQ(whole_bytes(whole.substr(0, bytes)), JsonLines(path).bytes());
  }
  std::string damaged = whole;
  damaged[first + 6] = '3';
  write_file(path, damaged);
  {
    JsonLines lines(path);
    EXPECT_EQ(lines.bytes(), first);
    EXPECT_EQ(lines.first_line(), whole.substr(0, first));
    EXPECT_EQ(read_file(path), damaged);  // unchanged until the first append()
    lines.append(R"({"a":2,"b":"x"})");
    EXPECT_EQ(read_file(path), whole);
    for (const char* wrong : {"", "{}", "[1]", "{\"a\":1"})
      EXPECT_THROW(lines.append(wrong), std::invalid_argument);
  }
  JsonLines lines(path);
  lines.append(R"({"a":3})");
  EXPECT_TRUE(read_file(path).starts_with(whole));
  lines.truncate(first);
  EXPECT_EQ(read_file(path), whole.substr(0, first));
  write_file(folder / "other", "\nmine\n");
  EXPECT_EQ(JsonLines(folder / "other").first_line(), "\n");
}

TEST(JsonLines, ThrowsIfTheFileWasRemoved) {
  const TemporaryFolder folder;
  JsonLines lines(folder / "lines");
  lines.append(R"({"a":1})");
  std::filesystem::remove(folder / "lines");
  EXPECT_ERROR_WITH(std::runtime_error, "lines: was removed", lines.append(R"({"a":2})"));
}

}  // namespace
