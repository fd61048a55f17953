// Files are written whole or not at all, even if memory runs out.

#include <iterator>

#include "tests/test.hpp"

namespace {

TEST(FailingMemory, LeavesTheOldFileOrTheNewOne) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "model.safetensors";
  Checkpoint checkpoint;
  checkpoint.put("token.weight", irregular({5, 3}));
  checkpoint.put("steps", 3);
  checkpoint.put("rates", std::vector<double>{0.1, 0.2});
  checkpoint.put("note", "in \"quotes\"");
  const auto save = [&](const std::filesystem::path& path) { write_safetensors(path, checkpoint); };
  save(file);
  const std::string after = read_file(file);
  const std::string before = "what was there";
  for_every_failure(
      [&] {
        std::ofstream(file) << before;
        return std::make_unique<std::filesystem::path>(file);
      },
      save,
      [&](const std::filesystem::path& path, bool finished) {
        EXPECT_EQ(read_file(path), finished ? after : before);
        const std::filesystem::directory_iterator all(folder.path());
        EXPECT_EQ(std::distance(begin(all), end(all)), 1) << "files are left over";
      });
}

TEST(FailingMemory, LetsReadingFail) {
  const TemporaryFolder folder;
  Checkpoint checkpoint;
  checkpoint.put("table", irregular({5, 3}));
  checkpoint.put("steps", 2);
  checkpoint.put("note", "a text");
  write_safetensors(folder / "model.safetensors", checkpoint);
  for_every_failure(
      [] { return std::make_unique<Checkpoint>(); },
      [&](Checkpoint& file) { file = read_safetensors(folder / "model.safetensors"); },
      [&](const Checkpoint& file, bool finished) {
        EXPECT_TRUE(bits_of(file) == bits_of(finished ? checkpoint : Checkpoint()));
      });
}

}  // namespace
