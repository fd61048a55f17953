#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/io/json_reader.hpp>
#include <rowgrad/core/tensor/check.hpp>
#include <rowgrad/core/tensor/utf8.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/gpt2_folder.hpp>

namespace rowgrad {

const PublishedWeights kGpt2Weights = {
    .url =
        "https://huggingface.co/openai-community/gpt2/resolve/"
        "607a30d783dfa663caf39e06633721c8d4cfcd7e/model.safetensors",
    .bytes = 548'105'171,
    .sha256 = "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707"};

std::filesystem::path find_gpt2_weights(const std::filesystem::path& folder,
                                        const PublishedWeights& published) {
  const std::filesystem::path path = folder / "model.safetensors";
  const auto advice = [&] {
    return concat("download ", published.url, " (", published.bytes, " bytes, SHA-256 ",
                  published.sha256, ") into that folder");
  };
  check_runtime(std::filesystem::exists(path), "there is no ", path.string(), ": ", advice());
  const InputFile file(path);
  if (file.size_bytes() == published.bytes) {
    const std::string found = sha256(file);
    check_runtime(found == published.sha256, path.string(), " is damaged, its SHA-256 is ", found,
                  ": ", advice());
  }
  return path;
}

std::size_t gpt2_heads(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::exists(path)) return 0;
  JsonReader config(read_file(path), path.string());
  std::size_t heads = 0;
  config.object([&](const std::string& key) {
    if (key == "n_head") {
      heads = config.whole_number();
    } else if (key == "activation_function") {
      const std::string activation = config.string();
      check_runtime(activation == "gelu_new" || activation == "gelu_pytorch_tanh", path.string(),
                    ": the activation_function is ", in_quotes(activation),
                    ", expected \"gelu_new\"");
    } else {
      config.skip();
    }
  });
  return heads;
}

}  // namespace rowgrad
