// Files are written whole or not at all, also where memory runs out.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/failing_allocations.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tensors.hpp"
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/io/safetensors.hpp>

namespace rowgrad {
namespace {

TEST(FailingMemory, LeavesTheOldFileOrTheNewOne) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "model.safetensors";
  const Tensor table = testing::irregular({5, 3});
  const Tensor number = scalar(3);
  const auto save = [&](const std::filesystem::path& path) {
    write_safetensors(path, std::vector<NamedTensor>{{"token.weight", &table}, {"steps", &number}},
                      {{"steps", "2"}, {"note", "in \"quotes\""}});
  };
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
  const Tensor table = testing::irregular({5, 3});
  write_safetensors(folder / "model.safetensors", std::vector<NamedTensor>{{"table", &table}},
                    {{"steps", "2"}});
  testing::for_every_failure(
      [] { return std::make_unique<SafetensorsFile>(); },
      [&](SafetensorsFile& file) { file = read_safetensors(folder / "model.safetensors"); },
      [&](const SafetensorsFile& file, bool finished) {
        EXPECT_EQ(file.tensors.size(), finished ? 1U : 0U);
        if (finished) {
          EXPECT_EQ(file.tensors.at("table"), table);
        }
      });
}

}  // namespace
}  // namespace rowgrad
