#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include <nlohmann/json.hpp>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/training.hpp>
#include <rowgrad/layers/gpt2_weights.hpp>

namespace rowgrad {

using nlohmann::json;

namespace {

constexpr const char* kFormat = "rowgrad training 7";

TokenWindows windows(const TokenSequence& ids, const TrainOptions& options, std::size_t stride) {
  return TokenWindows(ids, {.context = options.context, .stride = stride});
}

DataLoader training_loader(const TrainOptions& options, const TokenSequence& ids, Random& random) {
  return DataLoader(windows(ids, options, options.stride),
                    {.batch = options.batch,
                     .shuffle = options.shuffle,
                     .seed = options.seed,
                     .drop_last = options.one_generator,
                     .generator = options.one_generator ? &random : nullptr});
}

std::optional<DataLoader> validation_loader(const TrainOptions& options, const TokenSequence& ids,
                                            Random* generator) {
  if (options.validation == 0) return std::nullopt;
  check_argument(ids.size() > options.context, "--validation ", options.validation, " leaves ",
                 ids.size(), " tokens, fewer than one window of --context ", options.context,
                 " and its target");
  return DataLoader(windows(ids, options, options.context),
                    {.batch = options.batch, .generator = generator});
}

Checkpoint saved(const std::vector<Evaluation>& evaluations) {
  std::vector<std::int64_t> steps;
  std::vector<double> training, validation;
  for (const Evaluation& evaluation : evaluations) {
    steps.push_back(static_cast<std::int64_t>(evaluation.steps));
    training.push_back(evaluation.training_loss);
    validation.push_back(
        evaluation.validation_loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  Checkpoint state;
  state.put("steps", std::move(steps));
  state.put("training_loss", std::move(training));
  state.put("validation_loss", std::move(validation));
  return state;
}

std::vector<Evaluation> evaluations_in(const Checkpoint& state) {
  const auto steps = state.integers("steps");
  const auto training = state.doubles("training_loss");
  const auto validation = state.doubles("validation_loss");
  check_argument(training.size() == steps.size() && validation.size() == steps.size(),
                 "the evaluations have ", steps.size(), " steps, but ", training.size(), " and ",
                 validation.size(), " losses");
  std::vector<Evaluation> all;
  for (std::size_t i = 0; i < steps.size(); ++i)
    all.push_back({static_cast<std::size_t>(steps[i]), training[i],
                   std::isnan(validation[i]) ? std::nullopt : std::optional(validation[i])});
  return all;
}

}  // namespace

json to_json(const EpochRecord& record) {
  return {{"epoch", record.epoch},
          {"steps", record.steps},
          {"training_loss", record.training_loss},
          {"validation_loss", record.validation_loss ? json(*record.validation_loss) : json()},
          {"tokens_per_second", record.tokens_per_second}};
}

double unigram_loss(const TokenSequence& counted, const TokenSequence& text,
                    std::size_t vocabulary) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 24;
  constexpr std::uint64_t kAtOnce = std::uint64_t{1} << 16;
  // Visits the first kMost ids and returns how many there are.
  const auto each_id = [&](const TokenSequence& source, const auto& visit) {
    const std::uint64_t end = std::min(source.size(), kMost);
    std::vector<std::int32_t> ids;
    for (std::uint64_t begin = 0; begin < end; begin += ids.size()) {
      ids.resize(std::min(end - begin, kAtOnce));
      source.read(begin, ids);
      for (const std::int32_t id : ids) visit(static_cast<std::size_t>(id));
    }
    return end;
  };
  std::vector<double> counts(vocabulary, 1);
  const std::uint64_t tokens = each_id(counted, [&](std::size_t id) { ++counts.at(id); });
  const auto total = static_cast<double>(tokens + vocabulary);
  double loss = 0;
  const std::uint64_t predicted =
      each_id(text, [&](std::size_t id) { loss -= std::log(counts.at(id) / total); });
  return loss / static_cast<double>(predicted);
}

json to_json(const Evaluation& evaluation) {
  return {
      {"steps", evaluation.steps},
      {"training_loss", evaluation.training_loss},
      {"validation_loss", evaluation.validation_loss ? json(*evaluation.validation_loss) : json()}};
}

Training::Training(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer,
                   const Corpus& corpus, ProcessGroup* ranks)
    : Training(options, std::move(tokenizer), corpus, corpus.split(*tokenizer, options.validation),
               ranks) {}

Training::Training(const TrainOptions& options, std::unique_ptr<Tokenizer>&& tokenizer,
                   const Corpus& corpus, const Split& parts, ProcessGroup* ranks)
    : options_(options),
      ranks_(ranks),
      text_hash_(corpus.hash()),
      tokenizer_(std::move(tokenizer)),
      random_(options.seed),
      training_(training_loader(options, parts.train, random_)),
      validation_(validation_loader(options, parts.validation, nullptr)),
      training_sample_(training_loader(options, parts.train, random_)),
      validation_sample_(
          validation_loader(options, parts.validation, options.one_generator ? &random_ : nullptr)),
      model_(options.make_model(tokenizer_->size(), random_)),
      optimizer_(options.make_optimizer(model_->parameters())),
      schedule_(std::in_place, *optimizer_, Schedule::constant()),
      run({.model = *model_,
           .optimizer = *optimizer_,
           .loader = training_,
           .random = random_,
           .schedule = &*schedule_,
           .validation = validation_ ? &*validation_ : nullptr,
           .clip_norm = options.clip,
           .accumulate = options.accumulate,
           .shards = options.shards,
           .ranks = ranks}) {
  start_schedule(0);
}

std::size_t Training::steps_in_all() const {
  return options_.steps > 0 ? options_.steps : options_.epochs * run.steps_per_epoch();
}

std::size_t Training::steps_left() const {
  return steps_in_all() - std::min(run.steps(), steps_in_all());
}

std::size_t Training::tokens_left(std::size_t last_step) const {
  const std::size_t a_batch = options_.batch * options_.context;
  const std::size_t an_epoch =
      std::min(training_.windows().size() * options_.context, training_.size() * a_batch);
  // Only the last step of an epoch may have fewer tokens than the others.
  const auto tokens = [&](std::size_t steps) {
    const std::size_t whole = steps / run.steps_per_epoch();
    const std::size_t more = steps % run.steps_per_epoch();
    return whole * an_epoch + std::min(more * options_.accumulate * a_batch, an_epoch);
  };
  const std::size_t end = last_step > 0 ? std::min(steps_in_all(), last_step) : steps_in_all();
  return tokens(std::max(end, run.steps())) - tokens(run.steps());
}

bool Training::finished() const {
  return options_.steps > 0 ? steps_left() == 0 : run.history().size() >= options_.epochs;
}

std::optional<double> Training::loss(DataLoader& loader, const EvaluateOptions& options) {
  loader.rewind();
  return evaluate(*model_, loader, options);
}

std::optional<Evaluation> Training::evaluated(DataLoader& training,
                                              std::optional<DataLoader>& validation,
                                              const EvaluateOptions& options) {
  const auto of_training = loss(training, options);
  if (!of_training) return std::nullopt;
  if (!validation) return Evaluation{run.steps(), *of_training};
  const auto of_validation = loss(*validation, options);
  if (!of_validation) return std::nullopt;
  return Evaluation{run.steps(), *of_training, of_validation};
}

std::optional<Evaluation> Training::evaluate_if_due(const std::function<bool()>& goes_on) {
  const std::size_t steps = run.steps();
  const bool known = !evaluations_.empty() && evaluations_.back().steps == steps;
  if (options_.evaluate_every == 0 || steps == 0 || (steps - 1) % options_.evaluate_every != 0 ||
      known)
    return std::nullopt;
  const Random before = random_;
  const auto result =
      evaluated(training_sample_, validation_sample_,
                {.batches = options_.evaluate_batches, .after_batch = goes_on, .ranks = ranks_});
  if (result) {
    evaluations_.push_back(*result);
  } else {
    random_ = before;
  }
  return result;
}

std::optional<Evaluation> Training::evaluate_all(const std::function<bool()>& goes_on) {
  DataLoader whole(training_.windows(),
                   {.batch = options_.batch, .drop_last = options_.one_generator});
  return evaluated(whole, validation_, {.after_batch = goes_on, .ranks = ranks_});
}

std::optional<double> Training::validation_loss() {
  return validation_ ? loss(*validation_, {}) : std::nullopt;
}

void Training::start_from(const Checkpoint& gpt2_weights) {
  load_gpt2_weights(dynamic_cast<GptModel&>(*model_), gpt2_weights);
}

void Training::set_options(const TrainOptions& options) {
  options_ = options;
  start_schedule(run.steps());
}

void Training::start_schedule(std::uint64_t step) {
  schedule_.emplace(*optimizer_, options_.make_schedule(std::max<std::size_t>(steps_in_all(), 1)));
  Checkpoint state;
  state.put("step", step);
  state.put("base_rates", std::vector<double>(optimizer_->group_count(), options_.learning_rate));
  schedule_->load_state_dict(state);
}

void Training::save(const std::filesystem::path& path) const {
  Checkpoint file = run.state_dict();
  for (const std::string& name : file.names()) {
    const auto* values = std::get_if<Tensor>(&file.at(name));
    if (values == nullptr || !name.starts_with("model.")) continue;
    check_runtime(std::ranges::all_of(*values, [](real x) { return std::isfinite(x); }),
                  name.substr(std::string_view("model.").size()),
                  " is not finite any more at step ", run.steps(),
                  "; try a smaller --learning-rate");
  }
  file.put("evaluations", saved(evaluations_));
  // A sample may end within a character, which is then replaced.
  file.put("samples", json(samples_).dump(-1, ' ', true, json::error_handler_t::replace));
  file.put("format", kFormat);
  file.put("options", json(options_).dump());
  file.put("tokenizer", tokenizer_->to_json());
  file.put("text_sha256", text_hash_);
  write_safetensors(path, file);
}

std::unique_ptr<Training> Training::resume(const std::filesystem::path& path, const Corpus& corpus,
                                           ProcessGroup* ranks) {
  const Checkpoint file = read_safetensors(path);
  check_runtime(file.contains("format") && file.text("format") == kFormat, path.string(),
                ": not a checkpoint of a training run");
  const auto refusal = [&](const char* reason) {
    return std::runtime_error(concat(path.string(), ": cannot be resumed: ", reason));
  };
  try {
    check_argument(file.text("text_sha256") == corpus.hash(), "the run was on another text");
    Json(file.text("options"), "its options");
    Json(file.text("samples"), "its samples");
    const auto options = json::parse(file.text("options")).get<TrainOptions>();
    check_argument(json(options).dump() == file.text("options"),
                   "its options are not as they were written");  // a negative number, for example
    auto tokenizer = tokenizer_from_json(file.text("tokenizer"));
    const double numbers = options.least_numbers(tokenizer->size());
    const auto most = static_cast<double>(std::filesystem::file_size(path) / sizeof(real));
    check_argument(numbers <= most, "its options say that the model has ", numbers,
                   " numbers, but the file holds ", most, " at most");
    auto training = std::make_unique<Training>(options, std::move(tokenizer), corpus, ranks);
    training->run.load_state_dict(file);
    training->evaluations_ = evaluations_in(file.part("evaluations"));
    training->samples_ = json::parse(file.text("samples")).get<std::vector<Sample>>();
    return training;
  } catch (const json::exception&) {
    throw refusal("its options or samples are not those of a run");
  } catch (const std::bad_alloc&) {
    throw refusal("there is not enough memory");
  } catch (const std::exception& error) {
    throw refusal(error.what());
  }
}

}  // namespace rowgrad
