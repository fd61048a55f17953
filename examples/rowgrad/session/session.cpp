#include <algorithm>
#include <new>
#include <utility>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/layers/gpt/gpt_file.hpp>

namespace rowgrad {

namespace {

constexpr const char* kFormat = "rowgrad training 11";

TokenWindows windows(const TokenSequence& ids, const TrainOptions& options, std::size_t stride) {
  return TokenWindows(ids, {.context = options.gpt.context, .stride = stride});
}

DataLoader training_loader(const TrainOptions& options, const TokenSequence& ids) {
  DataLoaderOptions loader = options.loader;
  loader.seed = options.seed;
  loader.drop_last = options.draws_as_pytorch;
  loader.draw_order = options.draws_as_pytorch;
  return DataLoader(windows(ids, options, options.stride), loader);
}

std::optional<DataLoader> validation_loader(const TrainOptions& options, const TokenSequence& ids,
                                            bool draw_order) {
  if (options.validation == 0) return std::nullopt;
  const std::size_t context = options.gpt.context;
  check_argument(ids.size() > context, "--validation ", options.validation, " leaves ", ids.size(),
                 " tokens, fewer than one window of --context ", context, " and its target");
  return DataLoader(windows(ids, options, context),
                    {.batch = options.loader.batch, .draw_order = draw_order});
}

const TokenSequence& text_of(const DataLoader& loader) {
  return dynamic_cast<const TokenWindows&>(*loader.dataset()).text();
}

}  // namespace

Session::Session(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer,
                 const Corpus& corpus, ProcessGroup* ranks)
    : Session(options, std::move(tokenizer), corpus, corpus.split(*tokenizer, options.validation),
              ranks, false) {}

Session::Session(const TrainOptions& options, std::unique_ptr<Tokenizer>&& tokenizer,
                 const Corpus& corpus, const Split& parts, ProcessGroup* ranks, bool resumed)
    : options_(options),
      text_hash_(corpus.hash()),
      text_files_(corpus.files()),
      tokenizer_(std::move(tokenizer)),
      random_(options.seed),
      training_(training_loader(options, parts.train)),
      validation_(validation_loader(options, parts.validation, false)),
      training_sample_(training_loader(options, parts.train)),
      validation_sample_(validation_loader(options, parts.validation, options.draws_as_pytorch)),
      ranks_(ranks != nullptr ? std::optional<ParallelTraining>(std::in_place, *ranks)
                              : std::nullopt),
      model_(options.make_model(*tokenizer_, random_, tables_, resumed, ranks,
                                options.split_tables && ranks_ ? &*ranks_ : nullptr)),
      optimizer_(options.make_optimizer(model_->parameters())),
      schedule_(std::in_place, *optimizer_, Schedule::constant()),
      run({.model = *model_,
           .optimizer = *optimizer_,
           .loader = training_,
           .random = random_,
           .schedule = &*schedule_,
           .validation = validation_ ? &*validation_ : nullptr,
           .clip_norm = options.clip,
           .clip_from = options.clip_from,
           .accumulate = options.accumulate,
           .shards = options.shards,
           .ranks = ranks_ ? &*ranks_ : nullptr,
           .epochs = options.epochs,
           .steps = options.steps,
           .evaluation = {.every = options.evaluation.every,
                          .batches = options.evaluation.every > 0 ? options.evaluation.batches : 0,
                          .training = &training_sample_,
                          .validation = validation_sample_ ? &*validation_sample_ : nullptr}}) {
  start_schedule(0);
  tables_.keep();
}

std::optional<TrainingRecord> Session::evaluate_all() {
  DataLoader whole(training_.dataset(),
                   {.batch = options_.loader.batch, .drop_last = options_.draws_as_pytorch});
  return run.evaluate(whole, validation_ ? &*validation_ : nullptr);
}

std::optional<double> Session::validation_loss() {
  if (!validation_) return std::nullopt;
  return evaluate(*model_, *validation_,
                  {.batches = run.parts().evaluation.batches, .tables = run.tables()})
      ->loss;
}

const TokenSequence& Session::training_ids() const { return text_of(training_); }

const TokenSequence* Session::validation_ids() const {
  return validation_ ? &text_of(*validation_) : nullptr;
}

TokenSequence Session::evaluated_ids() const {
  const TokenSequence& all = *validation_ids();
  const std::uint64_t batches = run.parts().evaluation.batches;
  if (batches == 0 || batches >= validation_->batches()) return all;
  return all.slice(0, batches * options_.loader.batch * options_.gpt.context + 1);  // with targets
}

Ids Session::first_words(std::uint64_t most) const {
  return training_ids()
      .slice(0, std::min<std::uint64_t>({training_ids().size(), most, options_.gpt.context}))
      .ids();
}

void Session::set_options(const TrainOptions& options) {
  options_ = options;
  run.set_length(options.epochs, options.steps);
  start_schedule(run.steps());
}

void Session::start_schedule(std::uint64_t step) {
  schedule_.emplace(*optimizer_,
                    options_.make_schedule(std::max<std::size_t>(run.steps_in_all(), 1)));
  Checkpoint state;
  state.put("step", step);
  state.put("base_rates", options_.base_rates(*optimizer_));
  schedule_->load_state_dict(state);
}

void Session::save(const std::filesystem::path& path, const Checkpoint& watched) const {
  run.check_can_save();
  tables_.checkpoint();
  // The file names a checkpoint that the tables of all ranks have by then.
  if (ranks_ && !tables_.empty()) ranks_->group().any(false);
  const bool is_sharded = ranks_ && ranks_->has_tables();
  if (!run.is_first_rank() && !is_sharded) return;
  Checkpoint file = run.state_dict();
  file.put("samples", samples_json());
  file.put("format", kFormat);
  file.put("options", to_json(options_));
  file.put("tokenizer", tokenizer_->to_json());
  file.put("text_checksum", text_hash_);
  file.put("corpus", Json(text_files_).dump());
  if (const auto* gpt = dynamic_cast<const GptModel*>(model_.get()))
    file.put("gpt", gpt_options_state(gpt->options()));  // for load_gpt()
  Checkpoint watching;
  watching.put("watched", watched);
  if (is_sharded)
    return write_sharded_checkpoint(path, file, *ranks_, model_->parameters(), watching);
  file.put("watched", watched);
  write_whole_checkpoint(path, file);
}

std::string Session::samples_json() const {
  Json all = Json::array();
  for (const Sample& sample : samples)
    all.push_back({{"steps", sample.steps}, {"text", sample.text}});
  return all.dump();  // a sample may end within a character, which is then replaced
}

namespace {

// What `work` throws says which file cannot be used, and why.
template <class Work>
auto with_name(const std::string& name, const char* purpose, const Work& work) {
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

std::vector<std::string> corpus_in(const Checkpoint& file) {
  return Json(file.text("corpus"), "its corpus").strings();
}

void check_text(const Checkpoint& file, const Corpus& corpus) {
  const std::string hash = file.text("text_checksum"), found = corpus.hash();
  check_argument(hash == found, "the run was on another text: its checksum is ", hash, ", that of ",
                 corpus.source(), " is ", found);
}

// Reading a file must not take its tables back, which would lose what later checkpoints have.
void check_marks(const LanguageModel& model, const Checkpoint& state) {
  for (Parameter* parameter : model.parameters()) {
    if (parameter->is_in_memory()) continue;
    const std::string &saved = state.text(parameter->name()),
                      now = parameter->source().checkpoint_id();
    check_argument(saved == now, parameter->name(), " is in a table file at '", now,
                   "', expected '", saved,
                   "': another checkpoint of the run has been saved since; train --resume takes "
                   "the table back, and then that one cannot be loaded any more");
  }
}

// Throws std::invalid_argument for sizes far from those of the values in the file, before a model
// takes memory for them. What is not so far away is refused by its shape.
void check_sizes(const Checkpoint& file, const TrainOptions& options, const Tokenizer& tokenizer) {
  const double numbers = options.least_numbers(tokenizer.size());
  double most = 0;
  for (const std::string& name : file.part("model").names())
    if (const auto* tensor = std::get_if<Tensor>(&file.at("model." + name)))
      most += static_cast<double>(tensor->size());
  check_argument(numbers <= 2 * most, "its options say that the model has ", numbers,
                 " numbers, but the file holds ", most);
}

}  // namespace

TrainOptions saved_options(const Checkpoint& file, const std::string& name, const char* purpose) {
  check_runtime(!file.contains("labels"), name,
                ": is a classifier of finetune, expected a training run");
  check_runtime(file.contains("format"), name, ": not a checkpoint of a training run");
  check_runtime(file.text("format") == kFormat, name, ": the format is '", file.text("format"),
                "', expected '", kFormat, "'");
  return with_name(name, purpose, [&] {
    TrainOptions options = train_options(file.text("options")), moved = options;
    const std::filesystem::path folder = std::filesystem::absolute(name).parent_path();
    moved.ngram_file = folder / std::filesystem::path(options.ngram_file).filename();
    const auto is_there = [](const TrainOptions& some) {
      const std::vector<std::string> paths = some.table_paths();
      return paths.empty() || file_exists(paths[0]);
    };
    return is_there(options) || !is_there(moved) ? options : moved;
  });
}

std::vector<std::string> saved_corpus(const Checkpoint& file, const std::string& name) {
  const auto files = with_name(name, "read", [&] { return corpus_in(file); });
  for (const std::string& text : files)
    check_runtime(file_exists(text), "cannot read ", text, ", the text of the run ", name,
                  "; --corpus FILE says where it is now");
  return files;
}

std::unique_ptr<Session> Session::resume(const std::filesystem::path& path, const Corpus& corpus,
                                         ProcessGroup* ranks) {
  return resume(read_safetensors(path), path.string(), corpus, ranks);
}

std::unique_ptr<Session> Session::resume(const Checkpoint& file, const std::string& name,
                                         const Corpus& corpus, ProcessGroup* ranks) {
  const TrainOptions options = saved_options(file, name, "resumed");
  return with_name(name, "resumed", [&] {
    check_text(file, corpus);
    const std::size_t saved = saved_ranks(file), here = ranks == nullptr ? 1 : ranks->size();
    check_argument(!options.split_tables || options.ngram_file.empty() || saved == here,
                   "its tables are in files, saved by ", saved, " ranks, resumed on ", here,
                   "; expected as many");
    auto tokenizer = tokenizer_from_json(file.text("tokenizer"));
    check_sizes(file, options, *tokenizer);
    const Split parts = corpus.split(*tokenizer, options.validation);
    std::unique_ptr<Session> training(
        new Session(options, std::move(tokenizer), corpus, parts, ranks, true));
    if (const auto* gpt = dynamic_cast<const GptModel*>(training->model_.get()))
      check_argument(file.integers("gpt.memories.canonical") ==
                         gpt_options_state(gpt->options()).integers("memories.canonical"),
                     "with this version of utf8proc, --ngram-fold makes other tokens one");
    if (corpus.files().empty()) training->text_files_ = corpus_in(file);
    Checkpoint state = file;
    for (const std::string& watched : file.part("watched").names())
      state.erase("watched." + watched);
    training->run.load_state_dict(with_sharded_rows(std::move(state), name,
                                                    training->ranks_ ? &*training->ranks_ : nullptr,
                                                    training->model_->parameters()));
    const Json all(file.text("samples"), "its samples");
    for (const Json& sample : all.elements()) {
      const Json* steps = sample.find("steps");
      const Json* written = sample.find("text");
      check_argument(steps != nullptr && written != nullptr,
                     "a sample lacks its steps or its text");
      training->samples.push_back({steps->whole_number(), written->string()});
    }
    return training;
  });
}

std::unique_ptr<Session> Session::begin_again(const Checkpoint& file, const std::string& name,
                                              const Corpus& corpus,
                                              const std::filesystem::path& tables) {
  TrainOptions options = saved_options(file, name, "trained again");
  return with_name(name, "trained again", [&] {
    check_text(file, corpus);
    if (!options.ngram_file.empty()) options.ngram_file = tables / "table";
    return std::make_unique<Session>(options, tokenizer_from_json(file.text("tokenizer")), corpus);
  });
}

SavedModel load_model(const std::filesystem::path& path) {
  const Checkpoint file = with_sharded_rows(read_safetensors(path), path);
  if (!file.contains("format") && !file.contains("labels") && !file.part("gpt").empty()) {
    SavedGpt gpt = load_gpt(file, path.string());
    return {.tokenizer = std::move(gpt.tokenizer), .model = std::move(gpt.model)};
  }
  const TrainOptions options = saved_options(file, path.string(), "loaded");
  return with_name(path.string(), "loaded", [&] {
    SavedModel saved{.tokenizer = tokenizer_from_json(file.text("tokenizer"))};
    check_sizes(file, options, *saved.tokenizer);
    Random random(0);  // what it draws is overwritten
    saved.model = options.make_model(*saved.tokenizer, random, saved.tables, true);
    check_marks(*saved.model, file.part("model"));
    saved.model->load_state_dict(file.part("model"));
    if (saved.tables.empty()) return saved;
    saved.optimizer = options.make_optimizer(saved.model->parameters());
    saved.optimizer->load_state_dict(file.part("optimizer"));
    return saved;
  });
}

}  // namespace rowgrad
