#include <iomanip>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/session/saved_run.hpp>
#include <rowgrad/layers/gpt/gpt_file.hpp>

namespace rowgrad {
namespace {

// Throws unless all table files are at the checkpoint of this state. Loading an older checkpoint
// would restore its rows, so that later checkpoints could no longer be loaded.
void check_tables(const Model& model, const StateDict& state) {
  for (Parameter* parameter : model.parameters()) {
    if (parameter->is_in_memory()) continue;
    const std::string &saved = state.string(parameter->name()),
                      now = parameter->source().checkpoint_id();
    check_argument(saved == now, parameter->name(), " is in a table file at checkpoint '", now,
                   "', expected '", saved,
                   "': the run has saved a later checkpoint. train --resume restores the table, "
                   "but then the later checkpoint can no longer be loaded");
  }
}

}  // namespace

TrainOptions saved_options(const StateDict& file, const std::string& name, const char* purpose) {
  check_runtime(!file.contains("labels"), name,
                ": is a classifier written by finetune, expected a checkpoint of a training run");
  check_runtime(file.contains("format"), name, ": not a checkpoint of a training run");
  check_runtime(file.string("format") == kRunFormat, name, ": got the format '",
                file.string("format"), "', expected '", kRunFormat, "'");
  return explaining(name, purpose, [&] {
    TrainOptions options = train_options(file.string("options")), moved = options;
    const std::filesystem::path folder = std::filesystem::absolute(name).parent_path();
    moved.ngram_file = folder / std::filesystem::path(options.ngram_file).filename();
    const auto is_there = [](const TrainOptions& some) {
      const std::vector<std::string> paths = some.table_paths();
      return paths.empty() || file_exists(paths[0]);
    };
    return is_there(options) || !is_there(moved) ? options : moved;
  });
}

std::vector<std::string> saved_corpus(const StateDict& file, const std::string& name) {
  const auto files =
      explaining(name, "read", [&] { return Json(file.string("corpus"), "its corpus").strings(); });
  for (const std::string& text : files)
    check_runtime(file_exists(text), "cannot read ", text, ", the corpus of the run ", name,
                  "; pass its new location as --corpus");
  return files;
}

void check_model_size(const StateDict& file, const TrainOptions& options,
                      const Tokenizer& tokenizer) {
  std::uint64_t held = 0;
  for (const std::string& name : file.part("model").names())
    if (const auto* tensor = std::get_if<Tensor>(&file.at("model." + name))) held += tensor->size();
  const double needed = options.min_parameter_count(tokenizer.size());
  check_argument(needed <= 2 * static_cast<double>(held),
                 "its options describe a model of at least ", std::setprecision(20), needed,
                 " parameters, but the file has ", held);
}

SavedModel load_model(const std::filesystem::path& path) {
  const StateDict file = with_sharded_rows(read_safetensors(path), path);
  if (!file.contains("format") && !file.contains("labels") && !file.part("gpt").empty()) {
    SavedGpt gpt = load_gpt(file, path.string());
    return {.tokenizer = std::move(gpt.tokenizer), .model = std::move(gpt.model)};
  }
  const TrainOptions options = saved_options(file, path.string(), "loaded");
  return explaining(path.string(), "loaded", [&] {
    SavedModel saved{.tokenizer = tokenizer_from_json(file.string("tokenizer"))};
    check_model_size(file, options, *saved.tokenizer);
    Random random(0);  // for initial weights, which are overwritten
    saved.model = options.make_model(*saved.tokenizer, random, saved.tables, true);
    check_tables(*saved.model, file.part("model"));
    saved.model->load_state_dict(file.part("model"));
    if (saved.tables.empty()) return saved;
    saved.optimizer = options.make_optimizer(saved.model->parameters());
    saved.optimizer->load_state_dict(file.part("optimizer"));
    return saved;
  });
}

}  // namespace rowgrad
