#include <chrono>
#include <cmath>
#include <map>
#include <new>
#include <utility>

#include <nlohmann/json.hpp>

#include <rowgrad/core/io/json_reader.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/training.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>
#include <rowgrad/optim/parameter_updates.hpp>

namespace rowgrad {

using nlohmann::json;

namespace {

constexpr const char* kFormat = "rowgrad training 3";
constexpr const char* kModel = "model.";
constexpr const char* kOptimizer = "optimizer.";

DataLoader training_loader(const TrainOptions& options, Ids ids) {
  return DataLoader(
      TokenWindows(std::move(ids), {.context = options.context, .stride = options.stride}),
      {.batch = options.batch, .shuffle = options.shuffle, .seed = options.seed});
}

std::optional<DataLoader> validation_loader(const TrainOptions& options, Ids ids) {
  if (options.validation == 0) return std::nullopt;
  check_argument(ids.size() > options.context, "--validation ", options.validation, " leaves ",
                 ids.size(), " tokens, fewer than one window of --context ", options.context,
                 " and its target");
  return DataLoader(
      TokenWindows(std::move(ids), {.context = options.context, .stride = options.context}),
      {.batch = options.batch});
}

std::map<std::string, Tensor> with_prefix(const std::map<std::string, Tensor>& all,
                                          const std::string& prefix) {
  std::map<std::string, Tensor> found;
  for (const auto& [name, tensor] : all)
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = tensor;
  return found;
}

EpochRecord record_from(const json& value) {
  EpochRecord record{.epoch = value.at("epoch"),
                     .steps = value.at("steps"),
                     .training_loss = value.at("training_loss"),
                     .tokens_per_second = value.at("tokens_per_second")};
  if (!value.at("validation_loss").is_null()) record.validation_loss = value.at("validation_loss");
  return record;
}

// How many numbers a model will have, before one is made: a file may claim any size.
double numbers_of(const NextTokenOptions& options) {
  const auto vocabulary = static_cast<double>(options.vocabulary);
  const auto width = static_cast<double>(options.width);
  double sum = vocabulary * width;
  if (options.positions != Positions::kNone) sum += static_cast<double>(options.context) * width;
  double read = static_cast<double>(options.look_back) * width;
  for (const std::size_t next : options.hidden)
    sum += (std::exchange(read, static_cast<double>(next)) + 1) * static_cast<double>(next);
  return sum + (options.tie_weights ? vocabulary : (read + 1) * vocabulary);
}

json parsed(const Metadata& metadata, const std::string& key) {
  const std::string& text = metadata.at(key);
  check_json(text, "its " + key);
  return json::parse(text);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

json to_json(const EpochRecord& record) {
  return {{"epoch", record.epoch},
          {"steps", record.steps},
          {"training_loss", record.training_loss},
          {"validation_loss", record.validation_loss ? json(*record.validation_loss) : json()},
          {"tokens_per_second", record.tokens_per_second}};
}

double unigram_loss(const Ids& counted, const Ids& text, std::size_t vocabulary) {
  std::vector<double> counts(vocabulary, 1);
  for (const std::int32_t id : counted) ++counts.at(static_cast<std::size_t>(id));
  const double total = static_cast<double>(counted.size() + vocabulary);
  double loss = 0;
  for (const std::int32_t id : text)
    loss -= std::log(counts.at(static_cast<std::size_t>(id)) / total);
  return loss / static_cast<double>(text.size());
}

Training::Training(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer,
                   const std::string& text)
    : Training(options, std::move(tokenizer), sha256(text),
               split(tokenizer->encode(text), options.validation)) {}

Training::Training(const TrainOptions& options, std::unique_ptr<Tokenizer>&& tokenizer,
                   std::string text_hash, Split ids)
    : options_(options),
      text_hash_(std::move(text_hash)),
      tokenizer_(std::move(tokenizer)),
      loader_(training_loader(options, std::move(ids.train))),
      validation_(validation_loader(options, std::move(ids.validation))),
      random_(options.seed),
      model(options.model(tokenizer_->size()), random_),
      optimizer_(options.make_optimizer(model.parameters())) {
  start_schedule({.step_count = 0, .base_rates = {options.learning_rate}});
}

double Training::step(const Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  optimizer_->zero_grad();
  Tape tape(random_);
  const Variable loss = model.loss(tape, batch.inputs, batch.targets);
  if (steps_ == 0) optimizer_->check_trains_all(tape);
  tape.backward(loss);
  if (options_.clip > 0) clip_grad_norm(optimizer_->parameters(), options_.clip);
  optimizer_->step();
  schedule_->step();
  const std::size_t tokens = batch.targets.size();
  loss_sum_ += static_cast<double>(loss.item()) * static_cast<double>(tokens);
  tokens_ += tokens;
  timed_tokens_ += tokens;
  ++steps_;
  seconds_ += seconds_since(start);
  return loss.item();
}

bool Training::finish_epoch() {
  EpochRecord record{.epoch = history_.size() + 1,
                     .steps = steps_,
                     .training_loss = loss_sum_ / static_cast<double>(tokens_),
                     .tokens_per_second = tokens_per_second()};
  if (validation_) {
    record.validation_loss = evaluate(model, *validation_, [] { return !interrupted(); });
    if (!record.validation_loss) return false;
  }
  history_.push_back(record);
  loss_sum_ = 0;
  tokens_ = 0;
  seconds_ = 0;
  timed_tokens_ = 0;
  return true;
}

double Training::tokens_per_second() const {
  return seconds_ > 0 ? static_cast<double>(timed_tokens_) / seconds_ : 0;
}

std::size_t Training::steps_left() const {
  const std::size_t total = options_.epochs * steps_per_epoch();
  return total > steps_ ? total - steps_ : 0;
}

void Training::set_options(const TrainOptions& options) {
  options_ = options;
  start_schedule({.step_count = schedule_->step_count(), .base_rates = {options.learning_rate}});
}

void Training::start_schedule(LearningRateSchedule::State state) {
  schedule_ = std::make_unique<LearningRateSchedule>(
      *optimizer_, options_.make_schedule(options_.epochs * steps_per_epoch()));
  schedule_->load_state(std::move(state));
}

json Training::progress() const {
  json history = json::array();
  for (const EpochRecord& record : history_) history.push_back(to_json(record));
  const auto position = loader_.position();
  return {{"steps", steps_},
          {"epoch_loss_sum", loss_sum_},
          {"epoch_tokens", tokens_},
          {"history", history},
          {"loader", {{"epoch", position.epoch}, {"batch", position.batch}}},
          {"schedule",
           {{"step_count", schedule_->state().step_count},
            {"base_rates", schedule_->state().base_rates}}},
          {"random", random_.state()}};
}

void Training::save(const std::filesystem::path& path) const {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : model.state()) tensors.emplace_back(kModel + name, tensor);
  const auto optimizer = optimizer_->state();
  for (const auto& [name, tensor] : optimizer) tensors.emplace_back(kOptimizer + name, &tensor);
  write_safetensors(path, tensors,
                    {{"format", kFormat},
                     {"options", json(options_).dump()},
                     {"tokenizer", tokenizer_->to_json()},
                     {"text_sha256", text_hash_},
                     {"run", progress().dump()}});
}

std::unique_ptr<Training> Training::resume(const std::filesystem::path& path,
                                           const std::string& text) {
  const SafetensorsFile file = read_safetensors(path);
  const auto format = file.metadata.find("format");
  check_runtime(format != file.metadata.end() && format->second == kFormat, path.string(),
                ": not a checkpoint of train_verdict");
  const auto refusal = [&](const char* reason) {
    return std::runtime_error(concat(path.string(), ": cannot be resumed: ", reason));
  };
  try {
    for (const char* key : {"options", "tokenizer", "text_sha256", "run"})
      check_argument(file.metadata.contains(key), "its metadata lacks '", key, "'");
    check_argument(file.metadata.at("text_sha256") == sha256(text), "the run was on another text");
    const auto options = parsed(file.metadata, "options").get<TrainOptions>();
    check_argument(json(options).dump() == file.metadata.at("options"),
                   "its options are not as they were written");  // a negative number, say
    auto tokenizer = tokenizer_from_json(file.metadata.at("tokenizer"));
    double numbers = 0;
    for (const auto& [name, tensor] : file.tensors)
      if (name.starts_with(kModel)) numbers += static_cast<double>(tensor.size());
    const double expected = numbers_of(options.model(tokenizer->size()));
    check_argument(expected <= 2 * numbers, "its model has ", numbers, " numbers, its options say ",
                   expected);
    auto run = std::make_unique<Training>(options, std::move(tokenizer), text);
    run->restore(file);
    return run;
  } catch (const json::exception&) {
    throw refusal("its metadata is not that of a run");
  } catch (const std::bad_alloc&) {
    throw refusal("there is not enough memory");
  } catch (const std::exception& error) {
    throw refusal(error.what());
  }
}

// The optimizer comes last: how much work its state is depends on counts that are checked first.
void Training::restore(const SafetensorsFile& file) {
  const json run = parsed(file.metadata, "run");
  loader_.restore({.epoch = run.at("loader").at("epoch"), .batch = run.at("loader").at("batch")});
  steps_ = run.at("steps");
  loss_sum_ = run.at("epoch_loss_sum");
  tokens_ = run.at("epoch_tokens");
  for (const json& record : run.at("history")) history_.push_back(record_from(record));
  start_schedule({.step_count = run.at("schedule").at("step_count"),
                  .base_rates = run.at("schedule").at("base_rates")});
  random_.restore(run.at("random").get<std::string>());
  check_argument(progress().dump() == file.metadata.at("run"),
                 "its progress is not as it was written");
  check_progress();
  const auto optimizer = with_prefix(file.tensors, kOptimizer);
  for (const Parameter* parameter : optimizer_->parameters()) {
    const std::string name = "step." + parameter->name();
    const auto steps = optimizer.find(name);
    check_argument(steps == optimizer.end() ? steps_ == 0 : steps->second == saved_steps(steps_),
                   "its optimizer's '", name, "' is not the ", steps_, " steps of the run");
  }
  model.load_state(with_prefix(file.tensors, kModel));
  optimizer_->load_state(optimizer);
}

// Everything that counts, against each other and the text.
void Training::check_progress() const {
  const auto position = loader_.position();
  check_argument(history_.size() == position.epoch ||
                     (history_.size() + 1 == position.epoch && position.batch == 0),
                 "its records are of ", history_.size(), " epochs at batch ", position.batch,
                 " of epoch ", position.epoch + 1);
  check_argument(steps_ == position.epoch * steps_per_epoch() + position.batch, "its step ", steps_,
                 " is not batch ", position.batch, " of epoch ", position.epoch + 1);
  check_argument(schedule_->step_count() == steps_, "its schedule is at step ",
                 schedule_->step_count(), " of ", steps_);
  const std::uint64_t windows =
      awaits_validation() ? loader_.windows().size() : position.batch * options_.batch;
  check_argument(tokens_ == windows * options_.context, "its epoch has ", tokens_, " tokens after ",
                 windows, " windows of ", options_.context);
  for (std::size_t i = 0; i < history_.size(); ++i)
    check_argument(history_[i].epoch == i + 1 && history_[i].steps == (i + 1) * steps_per_epoch(),
                   "its record ", i + 1, " is of epoch ", history_[i].epoch, " and step ",
                   history_[i].steps);
}

}  // namespace rowgrad
