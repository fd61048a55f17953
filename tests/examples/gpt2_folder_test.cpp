#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/gpt2_folder.hpp>

namespace rowgrad {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

// Stands for the 548 MB.
const PublishedWeights kWeights = {
    .url = "https://weights.example/model.safetensors",
    .bytes = 3,
    .sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"};  // of "abc"

TEST(Gpt2Folder, SaysWhatToDownloadIfTheWeightsAreNotThere) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      error_of<std::runtime_error>([&] { find_gpt2_weights(folder.path()); }),
      "there is no " + (folder / "model.safetensors").string() +
          ": download https://huggingface.co/openai-community/gpt2/resolve/"
          "607a30d783dfa663caf39e06633721c8d4cfcd7e/model.safetensors (548105171 bytes, SHA-256 "
          "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707) into that folder");
}

TEST(Gpt2Folder, HasTheWeightsAsPublished) {
  const TemporaryFolder folder;
  write_file(folder / "model.safetensors", "abc");
  EXPECT_EQ(find_gpt2_weights(folder.path(), kWeights), folder / "model.safetensors");
}

TEST(Gpt2Folder, IsRefusedIfTheWeightsAreDamaged) {
  const TemporaryFolder folder;
  write_file(folder / "model.safetensors", "abd");
  EXPECT_EQ(error_of<std::runtime_error>([&] { find_gpt2_weights(folder.path(), kWeights); }),
            (folder / "model.safetensors").string() +
                " is damaged, its SHA-256 is "
                "a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9: download "
                "https://weights.example/model.safetensors (3 bytes, SHA-256 " +
                kWeights.sha256 + ") into that folder");
}

TEST(Sha256, OfAFileIsThatOfItsContents) {
  const TemporaryFolder folder;
  std::string contents;
  for (const std::size_t bytes : {0, 1 << 20, 2'500'000}) {
    while (contents.size() < bytes) contents += static_cast<char>(contents.size() % 251);
    write_file(folder / "file", contents);
    EXPECT_EQ(sha256(InputFile(folder / "file")), sha256(contents)) << bytes;
  }
}

TEST(Gpt2Folder, MayHaveAnotherModel) {
  const TemporaryFolder folder;
  write_file(folder / "model.safetensors", "another");
  EXPECT_EQ(find_gpt2_weights(folder.path(), kWeights), folder / "model.safetensors");
}

TEST(Gpt2Folder, MayTellTheNumberOfHeads) {
  const TemporaryFolder folder;
  const std::string path = folder / "config.json";
  EXPECT_EQ(gpt2_heads(folder.path()), 0U);
  write_file(path, R"({"n_layer": 2, "activation_function": "gelu_new", "n_head": 4})");
  EXPECT_EQ(gpt2_heads(folder.path()), 4U);
  write_file(path, R"({"layer_norm_epsilon": 1e-5})");
  EXPECT_EQ(gpt2_heads(folder.path()), 0U);
  write_file(path, R"({"n_head": 4, "activation_function": "relu"})");
  EXPECT_EQ(error_of<std::runtime_error>([&] { gpt2_heads(folder.path()); }),
            path + ": the activation_function is \"relu\", expected \"gelu_new\"");
  write_file(path, R"({"n_head": "many"})");
  EXPECT_EQ(error_of<std::runtime_error>([&] { gpt2_heads(folder.path()); }),
            path + ", at \"n_head\": expected a whole number below 2^64");
}

}  // namespace
}  // namespace rowgrad
