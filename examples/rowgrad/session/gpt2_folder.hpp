#pragma once

// A folder with GPT-2's weights as Hugging Face publishes them, or with those of another model in
// the same layout.

#include <cstdint>
#include <filesystem>
#include <string>

#include <rowgrad/core/tensor/checkpoint.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/options/train_options.hpp>

namespace rowgrad {

/// The model.safetensors in the folder. Throws std::runtime_error if there is no file or none that
/// can be read, saying how to get GPT-2's, of 124 million parameters.
Checkpoint read_gpt2_weights(const std::filesystem::path& folder);

/// What the folder's config.json says and the weights do not: heads (0 if it has no "n_head"), GELU
/// and norm_epsilon (GPT-2's if it has none). Throws std::runtime_error if the file is not JSON,
/// and for another activation than GELU.
GptOptions read_gpt2_config(const std::filesystem::path& folder);

/// The weights in a folder, with only the positions of `options.context`; sets the options that
/// they determine. Throws std::runtime_error for what is no GPT-2, and std::invalid_argument for a
/// --context that is longer than theirs.
Checkpoint read_gpt2(const CommandLine& line, const std::string& folder, TrainOptions& options);

/// The config.json with which Hugging Face's from_pretrained() reads weights that gpt2_weights()
/// wrote, and its place beside them; "" if they go to a device or a pipe.
std::string gpt2_config(const GptOptions& options);
std::filesystem::path gpt2_config_path(const std::filesystem::path& weights);

}  // namespace rowgrad
