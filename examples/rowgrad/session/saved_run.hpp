#pragma once

// Reads the checkpoint of a training run: its options, its text and its model.

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

/// The format of checkpoints, which have its name.
inline constexpr const char* kRunFormat = "rowgrad training 11";

/// Returns the options of a checkpoint, whose file is `name`. A table that is not where it was is
/// searched for next to that file, so that both can be moved. Throws std::runtime_error, which says
/// that the file cannot be `purpose`, for other files.
TrainOptions saved_options(const StateDict& file, const std::string& name,
                           const char* purpose = "read");

/// Returns the files of the text of the run, as Corpus::find() takes them. Throws
/// std::runtime_error if one does not exist any more.
std::vector<std::string> saved_corpus(const StateDict& file, const std::string& name);

/// Throws std::invalid_argument if the options describe a model that is far larger than the one in
/// the file, before memory is taken for it. Smaller differences show in the shapes.
void check_model_size(const StateDict& file, const TrainOptions& options,
                      const Tokenizer& tokenizer);

/// A saved model with the parts that it needs to write.
struct SavedModel {
  std::unique_ptr<Tokenizer> tokenizer = {};
  TableFileSet tables = {};
  std::unique_ptr<Optimizer> optimizer = {};  // has deferred updates of rows in files
  std::unique_ptr<LanguageModel> model = {};
};

/// Returns the model in the file of a run, without the text of the run, or in a file of save_gpt().
/// Throws std::runtime_error for other files, and if a table in a file has changed since.
SavedModel load_model(const std::filesystem::path& path);

/// Returns the result of `work`, whose exceptions become a std::runtime_error that says which file
/// cannot be `purpose`, and why.
template <class Work>
auto explaining(const std::string& name, const char* purpose, const Work& work) {
  const auto refusal = [&](const char* reason) {
    return std::runtime_error(concat(name, ": cannot be ", purpose, ": ", reason));
  };
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw refusal("there is not enough memory");
  } catch (const std::exception& error) {
    throw refusal(error.what());
  }
}

}  // namespace rowgrad
