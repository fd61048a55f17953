#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/session/gpt2_folder.hpp>

namespace {

TEST(Gpt2Folder, ReadsOptionsFromConfigJson) {
  const TemporaryFolder folder;
  const std::string path = folder / "config.json";
  const auto expect_read = [&](std::uint64_t heads, Gelu gelu, double epsilon) {
    const GptOptions shape = read_gpt2_config(folder.path());
    EXPECT_EQ(shape.heads, heads);
    EXPECT_EQ(shape.gelu, gelu);
    EXPECT_EQ(shape.norm_epsilon, epsilon);
  };
  expect_read(0, Gelu::kTanh, 1e-5);
  write_file(path, R"({"n_layer": 2, "activation_function": "gelu_new", "n_head": 4})");
  expect_read(4, Gelu::kTanh, 1e-5);
  write_file(path, R"({"layer_norm_epsilon": 1e-6, "activation_function": "gelu"})");
  expect_read(0, Gelu::kErf, 1e-6);
  const auto refusal = [&](const std::string& config) {
    write_file(path, config);
    return error_of<std::runtime_error>([&] { read_gpt2_config(folder.path()); });
  };
  EXPECT_EQ(refusal(R"({"n_head": 4, "activation_function": "relu"})"),
            path + ": got activation_function \"relu\", expected \"gelu_new\" or \"gelu\"");
  EXPECT_EQ(refusal(R"({"layer_norm_epsilon": -1})"),
            path + ": got layer_norm_epsilon -1, expected at least 0");
  EXPECT_EQ(refusal(R"({"n_head": "many"})"),
            path + ", at \"n_head\": expected a whole number below 2^64");
}

TEST(Gpt2Folder, WritesTheConfigJsonOfHuggingFace) {
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
