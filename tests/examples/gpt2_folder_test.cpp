#include "tests/test.hpp"
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/gpt2_folder.hpp>

namespace {

// Stands for the 548 MB.
const PublishedFile kWeights = {
    .name = "model.safetensors",
    .title = "weights",
    .url = "https://weights.example/model.safetensors",
    .sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",  // of "abc"
    .bytes = 3};

TEST(Gpt2Folder, SaysWhatToDownloadIfTheWeightsAreNotThere) {
  const TemporaryFolder folder;
  EXPECT_ERROR(
      std::runtime_error,
      "there is no " + (folder / "model.safetensors").string() +
          ": download https://huggingface.co/openai-community/gpt2/resolve/"
          "607a30d783dfa663caf39e06633721c8d4cfcd7e/model.safetensors (548105171 bytes, SHA-256 "
          "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707) into that folder",
      read_gpt2_weights(folder.path()));
}

TEST(Gpt2Folder, IsRefusedIfTheWeightsAreDamaged) {
  const TemporaryFolder folder;
  write_file(folder / "model.safetensors", "abd");
  EXPECT_ERROR(std::runtime_error,
               (folder / "model.safetensors").string() +
                   " is damaged, its SHA-256 is "
                   "a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9: download "
                   "https://weights.example/model.safetensors (3 bytes, SHA-256 " +
                   kWeights.sha256 + ") into that folder",
               read_gpt2_weights(folder.path(), kWeights));
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
  Checkpoint another;
  another.put("wte.weight", tensor({1, 2}, {1, 2}));
  write_safetensors(folder / "model.safetensors", another);
  EXPECT_EQ(read_gpt2_weights(folder.path(), kWeights).names(), another.names());
}

// The file as published is only read where it is. Here its size and SHA-256 are right.
TEST(Gpt2Folder, SaysWhatToDownloadIfTheWeightsCannotBeRead) {
  const TemporaryFolder folder;
  for (const std::string part : {"abc", "a part"}) {
    write_file(folder / "model.safetensors", part);
    EXPECT_ERROR_WITH(std::runtime_error,
                      "; for weights, download https://weights.example/model.safetensors (3 bytes",
                      read_gpt2_weights(folder.path(), kWeights));
  }
}

TEST(Gpt2Folder, TellsWhatTheWeightsDoNot) {
  const TemporaryFolder folder;
  const std::string path = folder / "config.json";
  const auto expect_read = [&](std::uint64_t heads, const std::string& gelu, double epsilon) {
    const GptShape shape = read_gpt2_config(folder.path());
    EXPECT_EQ(shape.heads, heads);
    EXPECT_EQ(shape.gelu, gelu);
    EXPECT_EQ(shape.norm_epsilon, epsilon);
  };
  expect_read(0, "tanh", 1e-5);
  write_file(path, R"({"n_layer": 2, "activation_function": "gelu_new", "n_head": 4})");
  expect_read(4, "tanh", 1e-5);
  write_file(path, R"({"layer_norm_epsilon": 1e-6, "activation_function": "gelu"})");
  expect_read(0, "erf", 1e-6);
  const auto refusal = [&](const std::string& config) {
    write_file(path, config);
    return error_of<std::runtime_error>([&] { read_gpt2_config(folder.path()); });
  };
  EXPECT_EQ(refusal(R"({"n_head": 4, "activation_function": "relu"})"),
            path + ": the activation_function is \"relu\", expected \"gelu_new\" or \"gelu\"");
  EXPECT_EQ(refusal(R"({"layer_norm_epsilon": -1})"),
            path + ": the layer_norm_epsilon is -1, expected a number not below 0");
  EXPECT_EQ(refusal(R"({"n_head": "many"})"),
            path + ", at \"n_head\": expected a whole number below 2^64");
}

TEST(Gpt2Folder, HasTheConfigurationThatHuggingFaceReads) {
  const auto config = json::parse(gpt2_config({.vocabulary = 62,
                                               .context = 8,
                                               .width = 16,
                                               .heads = 2,
                                               .layers = 3,
                                               .dropout = 0.25,
                                               .tie_weights = true,
                                               .gelu = Gelu::kErf,
                                               .norm_epsilon = 1e-6}));
  EXPECT_EQ(config, json::parse(R"({
      "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 62,
      "n_positions": 8, "n_embd": 16, "n_layer": 3, "n_head": 2, "activation_function": "gelu",
      "layer_norm_epsilon": 1e-6, "tie_word_embeddings": true, "embd_pdrop": 0.25,
      "attn_pdrop": 0.25, "resid_pdrop": 0.25, "bos_token_id": null, "eos_token_id": null})"));
  EXPECT_FALSE(json::parse(gpt2_config({})).contains("eos_token_id"));
}

}  // namespace
