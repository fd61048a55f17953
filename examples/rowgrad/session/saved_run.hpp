#pragma once

// Reads the checkpoint of a training run: its options, corpus and model.

#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/examples/rowgrad/options/train_options.hpp>

namespace rowgrad {

/// The format name stored in checkpoints.
inline constexpr const char* kRunFormat = "rowgrad training 12";

/// Returns the options of a checkpoint from the file `name`. A table file that has moved is
/// searched for next to this file, so both can be moved together. Throws std::runtime_error for
/// other files and, as explaining() does, for invalid options.
TrainOptions saved_options(const StateDict& file, const std::string& name,
                           const char* purpose = "read");

/// Returns the files of the run's corpus, for Corpus::find(). Throws std::runtime_error if one no
/// longer exists.
std::vector<std::string> saved_corpus(const StateDict& file, const std::string& name);

/// Throws std::invalid_argument if the options describe a far larger model than the file contains,
/// before memory is allocated for it. Smaller differences are found when shapes are checked.
void check_model_size(const StateDict& file, const TrainOptions& options,
                      const Tokenizer& tokenizer);

/// A saved model with everything that it needs to generate text.
struct SavedModel {
  std::unique_ptr<Tokenizer> tokenizer = {};
  TableFileSet tables = {};
  std::unique_ptr<Optimizer> optimizer = {};  // applies deferred steps to rows in files
  std::unique_ptr<Model> model = {};
};

/// Loads the model of a checkpoint, without its corpus, or of a file written by save_gpt(). Throws
/// std::runtime_error for other files, and if a table file has changed since.
SavedModel load_model(const std::filesystem::path& path);

/// Returns the result of `work`. Rethrows its exceptions as std::runtime_error, which says that the
/// file `name` cannot be `purpose`, and why.
template <class Work>
auto explaining(const std::string& name, const char* purpose, const Work& work) {
  const auto refusal = [&](const char* reason) {
    return std::runtime_error(concat(name, ": cannot be ", purpose, ": ", reason));
  };
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw refusal("not enough memory");
  } catch (const std::exception& error) {
    throw refusal(error.what());
  }
}

}  // namespace rowgrad
