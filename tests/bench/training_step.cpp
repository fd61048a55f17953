#include "tests/bench/training_step.hpp"

#include <chrono>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/adaptive.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad::bench {
namespace {

constexpr std::size_t kBatches = 16;

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

// That of GPTs: the table of a memory has five times the rate, and no decay.
std::unique_ptr<Optimizer> make_adamw(const std::string& name,
                                      const std::vector<Parameter*>& parameters) {
  AdamW::Group others{{}, {}}, tables{{}, {.learning_rate = 5e-3, .weight_decay = 0}};
  if (name == "sparse-adam") tables.options.rows = RowUpdates::kTouchedOnly;
  for (Parameter* parameter : parameters)
    (parameter->name().ends_with("table.weight") ? tables : others).parameters.push_back(parameter);
  return std::make_unique<AdamW>(std::vector<AdamW::Group>{others, tables});
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          const std::vector<Parameter*>& parameters) {
  if (name == "sgd") return std::make_unique<SGD>(parameters, SgdOptions{.learning_rate = 0.1});
  if (name == "momentum")
    return std::make_unique<SGD>(parameters, SgdOptions{.learning_rate = 0.1, .momentum = 0.9});
  if (name == "momentum-decay")
    return std::make_unique<SGD>(
        parameters, SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  check_argument(name == "adamw" || name == "sparse-adam", "workloads.json: optimizer ", name,
                 ", expected sgd, momentum, momentum-decay, adamw or sparse-adam");
  return make_adamw(name, parameters);
}

// Measures the cost of row gradients: nothing else is computed.
class EmbedStep : public TrainingStep {
 public:
  explicit EmbedStep(const Workload& workload)
      : TrainingStep(workload),
        token_(full({workload.vocabulary, workload.width}, 1)),  // drawing 4 M rows takes long
        position_(workload.context, workload.width, random_),
        upstream_(random_.normal({workload.batch, workload.context, workload.width})) {
    optimize({&token_.weight, &position_.weight});
  }

 private:
  Variable forward(Tape& tape, const Ids& inputs, const Ids&) override {
    return token_.forward(tape, inputs, position_.rows(tape, inputs.shape().back()));
  }
  void backward(const Variable& result) override { result.tape().backward(result, upstream_); }

  Random random_{1};
  Embedding token_;
  PositionalEmbedding position_;
  Tensor upstream_;  // the gradient of the output
};

// The toy next-token model: the same with a linear head and cross-entropy.
class ToyStep : public TrainingStep {
 public:
  explicit ToyStep(const Workload& workload)
      : TrainingStep(workload),
        model_({.vocabulary = workload.vocabulary,
                .context = workload.context,
                .width = workload.width},
               Random(123)) {
    optimize(model_.parameters());
  }

 private:
  Variable forward(Tape& tape, const Ids& inputs, const Ids& targets) override {
    return model_.loss(tape, inputs, targets);
  }

  NextTokenModel model_;
};

class GptStep : public TrainingStep {
 public:
  explicit GptStep(const Workload& workload)
      : TrainingStep(workload),
        model_({.vocabulary = workload.vocabulary,
                .context = workload.context,
                .width = workload.width,
                .heads = workload.heads,
                .layers = workload.layers,
                .dropout = workload.dropout,
                .gelu = Gelu::kErf,
                .memories = memories(workload)},
               random_) {
    optimize(model_.parameters());
  }

 private:
  static GptMemories memories(const Workload& workload) {
    if (workload.ngram_rows == 0) return {};
    return {.blocks = {1},
            .ngrams = {.orders = {2, 3}, .heads = kNgramHeads, .rows = workload.ngram_rows},
            .memory = {.head_width = kNgramWidth}};
  }

  Random* random() override { return &random_; }
  Variable forward(Tape& tape, const Ids& inputs, const Ids& targets) override {
    return model_.loss(tape, inputs, targets);
  }

  Random random_{123};
  GptModel model_;
};

}  // namespace

TrainingStep::TrainingStep(const Workload& workload)
    : optimizer_name_(workload.optimizer),
      inputs_(random_batches(workload, 1)),
      targets_(random_batches(workload, 2)) {}

void TrainingStep::optimize(const std::vector<Parameter*>& parameters) {
  optimizer_ = make_optimizer(optimizer_name_, parameters);
}

void TrainingStep::run(StepParts& parts) {
  using Clock = std::chrono::steady_clock;
  const std::size_t batch = next_++ % kBatches;
  const auto start = Clock::now();
  optimizer_->zero_grad();
  Tape tape = random() != nullptr ? Tape(*random()) : Tape();
  const Variable result = forward(tape, inputs_[batch], targets_[batch]);
  const auto forward = Clock::now();
  backward(result);
  const auto backward = Clock::now();
  optimizer_->step();
  const auto end = Clock::now();
  parts.forward.push_back(std::chrono::duration<double>(forward - start).count());
  parts.backward.push_back(std::chrono::duration<double>(backward - forward).count());
  parts.update.push_back(std::chrono::duration<double>(end - backward).count());
}

std::unique_ptr<TrainingStep> make_training_step(const Workload& workload) {
  if (workload.model == "embed") return std::make_unique<EmbedStep>(workload);
  if (workload.model == "gpt") return std::make_unique<GptStep>(workload);
  check_argument(workload.model == "toy", "workloads.json: model ", workload.model,
                 ", expected embed, toy or gpt");
  return std::make_unique<ToyStep>(workload);
}

}  // namespace rowgrad::bench
