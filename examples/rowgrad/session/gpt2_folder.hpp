#pragma once

// A folder with weights in the layout of Hugging Face's GPT-2.

#include <cstdint>
#include <filesystem>
#include <string>

#include <rowgrad/core/tensor/state_dict.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/options/train_options.hpp>

namespace rowgrad {

/// Reads model.safetensors in the folder. If that fails, throws std::runtime_error, which says how
/// to download GPT-2 (124 million parameters).
StateDict read_gpt2_weights(const std::filesystem::path& folder);

/// Reads from the folder's config.json the options that the weights do not determine: heads (0 if
/// missing), GELU and norm_epsilon (GPT-2's if missing). Throws std::runtime_error if the file is
/// not JSON, and for activations other than GELU.
GptOptions read_gpt2_config(const std::filesystem::path& folder);

/// Reads the weights in a folder, but only `options.gpt.context` rows of the position table. Sets
/// the options that the weights determine. Throws std::runtime_error for models other than GPT-2,
/// and std::invalid_argument if --context exceeds the context of the weights.
StateDict read_gpt2(const CommandLine& line, const std::string& folder, TrainOptions& options);

/// Returns the config.json with which Hugging Face's from_pretrained() reads gpt2_weights().
std::string gpt2_config(const GptOptions& options);
/// Returns the path of config.json next to the weights; "" for a device or a pipe.
std::filesystem::path gpt2_config_path(const std::filesystem::path& weights);

}  // namespace rowgrad
