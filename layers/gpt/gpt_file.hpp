#pragma once

// A GPT and its tokenizer in one file, to be read by a program of one's own. A GPT that train
// saved is such a file, too:
//
//   const SavedGpt saved = load_gpt("run.safetensors");
//   const Ids ids = saved.tokenizer->encode("Every evening");
//   std::cout << saved.tokenizer->decode(generate(*saved.model, ids, {.max_new_tokens = 50},
//   random));

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>

namespace rowgrad {

/// What load_gpt() read.
struct SavedGpt {
  std::unique_ptr<Tokenizer> tokenizer;  // that of the model's text
  std::unique_ptr<GptModel> model;       // in training mode, as a new one
};

/// Writes a model, its adapters included, and its tokenizer. Throws std::runtime_error if the file
/// cannot be written, and std::invalid_argument for a class derived from GptModel.
void save_gpt(const std::filesystem::path& path, const GptModel& model, const Tokenizer& tokenizer);

/// Reads them again; all but the adapters of a model that has some is frozen. A model whose
/// memories have their tables in files needs these, in the order of GptMemories::files, and takes
/// them back to what they were when it was saved; they are borrowed: std::invalid_argument for
/// another number of them. Throws std::runtime_error, which names the file, for one that is not
/// whole or has no GPT.
SavedGpt load_gpt(const std::filesystem::path& path, const std::vector<TableFile*>& tables = {});

/// Does the same for what was read from a file, whose name messages need.
SavedGpt load_gpt(const StateDict& file, const std::string& name,
                  const std::vector<TableFile*>& tables = {});

/// The options of a model as values of a checkpoint, but for the files of tables: what other files
/// need beside "tokenizer" and "model" to be read by load_gpt(), under the name "gpt".
StateDict gpt_options_state(const GptOptions& options);

}  // namespace rowgrad
