#pragma once

// A folder with GPT-2's weights as Hugging Face publishes them, or with those of another model in
// the same layout:
//
//   const Checkpoint file = read_safetensors(find_gpt2_weights(folder));
//   GptModel model(gpt2_options(file, gpt2_heads(folder)), random);
//   load_gpt2_weights(model, file);

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace rowgrad {

/// A large file that others publish and the user downloads.
struct PublishedWeights {
  std::string url;
  std::uint64_t bytes;
  std::string sha256;  // in lower-case hexadecimal digits
};

/// GPT-2, 124 million parameters.
extern const PublishedWeights kGpt2Weights;

/// The path of model.safetensors in the folder. A file of another size than the published one is
/// another model. Throws std::runtime_error if there is no file, saying what to download, and if it
/// has the published size, but another SHA-256.
std::filesystem::path find_gpt2_weights(const std::filesystem::path& folder,
                                        const PublishedWeights& published = kGpt2Weights);

/// The number of heads that the folder's config.json gives as "n_head", for gpt2_options(); 0 if
/// there is none. Throws std::runtime_error if the file is not JSON, and for another activation
/// than GELU by tanh.
std::size_t gpt2_heads(const std::filesystem::path& folder);

}  // namespace rowgrad
