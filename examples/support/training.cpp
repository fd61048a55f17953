#include <cmath>
#include <new>
#include <utility>

#include <nlohmann/json.hpp>

#include <rowgrad/core/io/json_reader.hpp>
#include <rowgrad/core/io/safetensors.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/training.hpp>

namespace rowgrad {

using nlohmann::json;

namespace {

constexpr const char* kFormat = "rowgrad training 4";

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

// The number of values of a model, before the model is made: a file may claim any size.
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
      optimizer_(options.make_optimizer(model.parameters())),
      schedule_(std::in_place, *optimizer_, Schedule::constant()),
      run({.model = model,
           .optimizer = *optimizer_,
           .loader = loader_,
           .random = random_,
           .schedule = &*schedule_,
           .validation = validation_ ? &*validation_ : nullptr,
           .clip_norm = options.clip}) {
  start_schedule(0);
}

std::size_t Training::steps_left() const {
  const std::size_t total = options_.epochs * steps_per_epoch();
  return total > run.steps() ? total - run.steps() : 0;
}

void Training::set_options(const TrainOptions& options) {
  options_ = options;
  start_schedule(run.steps());
}

void Training::start_schedule(std::uint64_t step) {
  schedule_.emplace(*optimizer_, options_.make_schedule(options_.epochs * steps_per_epoch()));
  Checkpoint state;
  state.put("step", step);
  state.put("base_rates", std::vector<double>{options_.learning_rate});
  schedule_->load_state_dict(state);
}

void Training::save(const std::filesystem::path& path) const {
  Checkpoint file = run.state_dict();
  file.put("format", kFormat);
  file.put("options", json(options_).dump());
  file.put("tokenizer", tokenizer_->to_json());
  file.put("text_sha256", text_hash_);
  write_safetensors(path, file);
}

std::unique_ptr<Training> Training::resume(const std::filesystem::path& path,
                                           const std::string& text) {
  const Checkpoint file = read_safetensors(path);
  check_runtime(file.contains("format") && file.text("format") == kFormat, path.string(),
                ": not a checkpoint of train_verdict");
  const auto refusal = [&](const char* reason) {
    return std::runtime_error(concat(path.string(), ": cannot be resumed: ", reason));
  };
  try {
    check_argument(file.text("text_sha256") == sha256(text), "the run was on another text");
    check_json(file.text("options"), "its options");
    const auto options = json::parse(file.text("options")).get<TrainOptions>();
    check_argument(json(options).dump() == file.text("options"),
                   "its options are not as they were written");  // a negative number, for example
    auto tokenizer = tokenizer_from_json(file.text("tokenizer"));
    const double numbers = numbers_of(options.model(tokenizer->size()));
    const auto most = static_cast<double>(std::filesystem::file_size(path) / sizeof(real));
    check_argument(numbers <= most, "its options say that the model has ", numbers,
                   " numbers, but the file holds ", most, " at most");
    auto training = std::make_unique<Training>(options, std::move(tokenizer), text);
    training->run.load_state_dict(file);
    return training;
  } catch (const json::exception&) {
    throw refusal("its options are not those of a run");
  } catch (const std::bad_alloc&) {
    throw refusal("there is not enough memory");
  } catch (const std::exception& error) {
    throw refusal(error.what());
  }
}

}  // namespace rowgrad
