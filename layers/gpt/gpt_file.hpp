#pragma once

// A GPT and its tokenizer in one file, as save_gpt() and `rowgrad train` write it:
//
//   const SavedGpt saved = load_gpt("run.safetensors");
//   const Ids ids = saved.tokenizer->encode("Every evening");
//   const Ids more = generate(*saved.model, ids, {.max_new_tokens = 50}, random);
//   std::cout << saved.tokenizer->decode(more);

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>

namespace rowgrad {

/// The result of load_gpt().
struct SavedGpt {
  std::unique_ptr<Tokenizer> tokenizer;  // tokenizer of the model
  std::unique_ptr<GptModel> model;       // in training mode
};

/// Writes a model, including adapters, and its tokenizer. Throws std::runtime_error if writing
/// fails, and std::invalid_argument if the model's class is derived from GptModel.
void save_gpt(const std::filesystem::path& path, const GptModel& model, const Tokenizer& tokenizer);

/// Reads a model and its tokenizer. If the model has adapters, everything else is frozen. A model
/// with memories in table files borrows `tables`, in the order of GptMemories::files, and restores
/// them to the model's checkpoint. Throws std::invalid_argument for a wrong number of table files,
/// and std::runtime_error, which names the file, if the file is incomplete or has no GPT.
SavedGpt load_gpt(const std::filesystem::path& path, const std::vector<TableFile*>& tables = {});

/// Reads a model and its tokenizer from the contents of a file, which messages call `name`.
SavedGpt load_gpt(const StateDict& file, const std::string& name,
                  const std::vector<TableFile*>& tables = {});

/// Returns the options of a model, without table files, as a state dict. load_gpt() expects it
/// under the name "gpt", next to "tokenizer" and "model".
StateDict gpt_options_state(const GptOptions& options);

}  // namespace rowgrad
