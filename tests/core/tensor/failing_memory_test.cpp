// Files are written whole or not at all, even if memory runs out.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/checkpoints.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tensors.hpp"
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>

namespace rowgrad {
namespace {

TEST(FailingMemory, LeavesTheOldFileOrTheNewOne) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "model.safetensors";
  Checkpoint checkpoint;
  checkpoint.put("token.weight", testing::irregular({5, 3}));
  checkpoint.put("steps", 3);
  checkpoint.put("rates", std::vector<double>{0.1, 0.2});
  checkpoint.put("note", "in \"quotes\"");
  const auto save = [&](const std::filesystem::path& path) { write_safetensors(path, checkpoint); };
  save(file);
  const std::string after = read_file(file);
  const std::string before = "what was there";
  testing::for_every_failure(
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
  const testing::TemporaryFolder folder;
  Checkpoint checkpoint;
  checkpoint.put("table", testing::irregular({5, 3}));
  checkpoint.put("steps", 2);
  checkpoint.put("note", "a text");
  write_safetensors(folder / "model.safetensors", checkpoint);
  testing::for_every_failure(
      [] { return std::make_unique<Checkpoint>(); },
      [&](Checkpoint& file) { file = read_safetensors(folder / "model.safetensors"); },
      [&](const Checkpoint& file, bool finished) {
        EXPECT_TRUE(testing::bits_of(file) ==
                    testing::bits_of(finished ? checkpoint : Checkpoint()));
      });
}

}  // namespace
}  // namespace rowgrad
