#include "tests/bench/measure.hpp"

#include <algorithm>
#include <chrono>

#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/tensor/negative_sampler.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/adaptive.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Token and position tables only, to measure the cost of row gradients.
struct Tables : Layer {
  Tables(const Workload& workload, Random& random)
      : token(*this, "token",
              full({workload.vocabulary, workload.width}, 1)),  // random values would take long
        position(*this, "position", workload.context, workload.width, random),
        upstream(random.normal({workload.batch, workload.context, workload.width})) {}

  Variable forward(Tape& tape, const Ids& ids) {
    return token.forward(tape, ids, position.rows(tape, ids.shape().back()));
  }

  Submodule<Embedding> token;
  Submodule<PositionalEmbedding> position;
  Tensor upstream;  // the gradient of the output
};

std::unique_ptr<LanguageModel> make_model(const Workload& workload, Random& random) {
  if (workload.model == "toy") {
    auto model =
        std::make_unique<NextTokenModel>(NextTokenOptions{.vocabulary = workload.vocabulary,
                                                          .context = workload.context,
                                                          .width = workload.width,
                                                          .head_bias = workload.samples == 0},
                                         random);
    if (workload.samples > 0)
      model->sample_loss(NegativeSampler(std::vector<double>(workload.vocabulary, 1)),
                         workload.samples);
    return model;
  }
  check_argument(workload.model == "gpt", "workloads.json: model ", workload.model,
                 ", expected embed, toy or gpt");
  return std::make_unique<GptModel>(gpt_options(workload), random);
}

// Seconds for the parts of each step.
struct StepParts {
  std::vector<double> forward = {};  // including zero_grad()
  std::vector<double> backward = {};
  std::vector<double> update = {};  // the optimizer's step()
};

class TrainingStep {
 public:
  explicit TrainingStep(const Workload& workload)
      : inputs_(random_batches(workload, 1)), targets_(random_batches(workload, 2)) {
    if (workload.model == "embed")
      tables_ = std::make_unique<Tables>(workload, random_);
    else
      model_ = make_model(workload, random_);
    optimizer_ = make_optimizer(workload.optimizer,
                                (tables_ ? *tables_ : static_cast<Layer&>(*model_)).parameters());
  }

  // Runs a step on the next batch.
  void run(StepParts& parts) {
    const std::size_t batch = next_++ % kBatches;
    auto start = Clock::now();
    optimizer_->zero_grad();
    Tape tape(random_);
    const Variable result = tables_ ? tables_->forward(tape, inputs_[batch])
                                    : model_->loss(tape, inputs_[batch], targets_[batch]);
    parts.forward.push_back(seconds_since(start));
    start = Clock::now();
    if (tables_)
      tape.backward(result, tables_->upstream);
    else
      tape.backward(result, {.keep_values = false});
    parts.backward.push_back(seconds_since(start));
    start = Clock::now();
    optimizer_->step();
    parts.update.push_back(seconds_since(start));
  }

 private:
  Random random_{123};
  std::vector<Ids> inputs_, targets_;
  std::size_t next_ = 0;
  std::unique_ptr<Tables> tables_;        // null if there is a model
  std::unique_ptr<LanguageModel> model_;  // null if there are tables
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<Ids> random_batches(const Workload& workload, std::uint64_t seed) {
  Random random(seed);
  std::vector<Ids> batches;
  for (std::size_t i = 0; i < kBatches; ++i) {
    Ids ids = Ids::from_shape({workload.batch, workload.context});
    for (std::int32_t& id : ids.storage())
      id = static_cast<std::int32_t>(random.bits() % workload.vocabulary);
    batches.push_back(std::move(ids));
  }
  return batches;
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          const std::vector<Parameter*>& parameters) {
  const auto sgd = [&](const SgdOptions& options) {
    return std::make_unique<SGD>(parameters, options);
  };
  if (name == "sgd") return sgd({.learning_rate = 0.1});
  if (name == "momentum") return sgd({.learning_rate = 0.1, .momentum = 0.9});
  if (name == "momentum-decay")
    return sgd({.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  check_argument(name == "adamw" || name == "sparse-adam", "workloads.json: optimizer ", name,
                 ", expected sgd, momentum, momentum-decay, adamw or sparse-adam");
  // In GPTs, the table of a memory has five times the learning rate of other parameters, and no
  // weight decay.
  AdamW::Group others{{}, {}}, tables{{}, {.learning_rate = 5e-3, .weight_decay = 0}};
  if (name == "sparse-adam") tables.options.rows = RowUpdates::kTouchedOnly;
  for (Parameter* parameter : parameters)
    (parameter->name().ends_with("table.weight") ? tables : others).parameters.push_back(parameter);
  return std::make_unique<AdamW>(std::vector<AdamW::Group>{others, tables});
}

GptOptions gpt_options(const Workload& workload) {
  GptOptions options{.vocabulary = workload.vocabulary,
                     .context = workload.context,
                     .width = workload.width,
                     .heads = workload.heads,
                     .layers = workload.layers,
                     .dropout = workload.dropout,
                     .gelu = Gelu::kErf};
  if (workload.ngram_rows > 0)
    options.memories = {
        .blocks = {1},
        .ngrams = {.orders = {2, 3}, .heads = kNgramHeads, .rows = workload.ngram_rows},
        .memory = {.head_width = kNgramWidth}};
  return options;
}

Timing time_runs(const std::function<void()>& run, const Pace& pace,
                 const std::function<void()>& prepare) {
  constexpr std::size_t kMinRuns = 3;
  std::vector<double> seconds;
  double total = 0;
  for (std::size_t i = 0; i < pace.warm_up; ++i) {
    prepare();
    run();
  }
  while (pace.repeats > 0 ? seconds.size() < pace.repeats
                          : seconds.size() < kMinRuns || total < pace.seconds) {
    prepare();
    const auto start = Clock::now();
    run();
    seconds.push_back(seconds_since(start));
    total += seconds.back();
  }
  return {median(seconds), *std::min_element(seconds.begin(), seconds.end()), seconds.size()};
}

nlohmann::json measure(const Workload& workload, const Pace& pace) {
  set_threads(workload.threads);
  TrainingStep step(workload);
  StepParts parts;
  const Timing timing = time_runs([&] { step.run(parts); }, pace);
  const blas::Info info = blas::info();
  return {{"median_us", timing.median_seconds * 1e6},
          {"forward_us", median(parts.forward) * 1e6},
          {"backward_us", median(parts.backward) * 1e6},
          {"update_us", median(parts.update) * 1e6},
          {"steps", timing.runs},
          {"tokens_per_second", static_cast<double>(workload.tokens()) / timing.median_seconds},
          {"blas", blas::describe()},
          {"kernel", info.kernel},
          {"kernel_reselected", info.reselected}};
}

}  // namespace rowgrad::bench
