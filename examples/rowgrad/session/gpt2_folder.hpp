#pragma once

// A folder with weights in the layout in which Hugging Face publishes GPT-2's.

#include <cstdint>
#include <filesystem>
#include <string>

#include <rowgrad/core/tensor/state_dict.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/options/train_options.hpp>

namespace rowgrad {

/// Reads the model.safetensors in the folder. Throws std::runtime_error if that fails, and says how
/// to get the file of GPT-2 with 124 million parameters.
StateDict read_gpt2_weights(const std::filesystem::path& folder);

/// Reads the options that are in the folder's config.json and not in the weights: heads (0 without
/// "n_head"), GELU and norm_epsilon (as in GPT-2 if missing). Throws std::runtime_error if the file
/// is not JSON, and for another activation than GELU.
GptOptions read_gpt2_config(const std::filesystem::path& folder);

/// Reads the weights in a folder, with only the positions of `options.context`, and sets the
/// options that they determine. Throws std::runtime_error for other models than GPT-2, and
/// std::invalid_argument for a --context that is longer than the context of the weights.
StateDict read_gpt2(const CommandLine& line, const std::string& folder, TrainOptions& options);

/// Returns the config.json with which Hugging Face's from_pretrained() reads the weights of
/// gpt2_weights(), and its path next to the weights, "" if these go to a device or a pipe.
std::string gpt2_config(const GptOptions& options);
std::filesystem::path gpt2_config_path(const std::filesystem::path& weights);

}  // namespace rowgrad
