#pragma once

// Small models and corpora for tests of training runs.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/resumable.hpp"
#include <rowgrad/rowgrad.hpp>

namespace rowgrad::testing {

/// A minimal language model: each token predicts the next token.
class Bigram : public LanguageModel {
 public:
  static constexpr std::size_t kVocabulary = 7;

  explicit Bigram(Random& random)
      : token(*this, "token", kVocabulary, 4, random, EmbeddingOptions{.kind = RowKind::kToken}),
        dropout(*this, "dropout", 0.2),
        head(*this, "head", 4, kVocabulary, random) {}

  Variable forward(Tape& tape, const Ids& ids) override {
    return head.forward(dropout.forward(token.forward(tape, ids)));
  }
  std::size_t context() const override { return 5; }
  std::size_t vocabulary() const override { return kVocabulary; }

  Submodule<Embedding> token;
  Submodule<Dropout> dropout;
  Submodule<Linear> head;
};

/// Returns windows of 5 tokens for a Bigram; the first `ignored` targets are masked.
inline TokenWindows windows(std::size_t tokens, std::size_t ignored = 0) {
  Ids text = Ids::from_shape({tokens});
  for (std::size_t i = 0; i < tokens; ++i)
    text[i] = static_cast<std::int32_t>(i * i % Bigram::kVocabulary);
  Ids targets = text;
  std::fill_n(targets.begin(), ignored, kIgnoredTarget);
  const WindowOptions options{.context = 5, .stride = 5};
  return ignored == 0 ? TokenWindows(text, options) : TokenWindows(text, targets, options);
}

/// Records the loss of each step.
struct Losses : TrainingCallback {
  void after_step(const TrainingRun&, const StepResult& result) override {
    if (result.loss) all.push_back(*result.loss);
  }
  std::vector<double> all;
};

/// Damage that a training run does not detect: models and losses may have any values.
inline const std::vector<std::string> kTakenByRuns{
    "NaN in model.*", "NaN in optimizer.!(*.rules)", "@(NaN|-1) in epoch_loss_sum",
    "@(NaN|-1) in history.!(steps|epoch)", "unknown ?(history.|progress.|random.|schedule.)more"};

/// A training run, with all its parts, for expect_resumable().
template <class Trained>
class RunningTraining : public Running {
 public:
  explicit RunningTraining(auto&&... arguments)
      : trained(std::forward<decltype(arguments)>(arguments)...) {
    trained.run.add(losses);
  }
  std::string step() override {
    trained.run.step();
    return concat(losses.all.back());
  }
  StateDict save() override { return trained.run.state_dict(); }
  void load(const StateDict& state) override { trained.run.load_state_dict(state); }
  std::string bits() override {
    return bits_of(without(save(), concat("history.", trained.run.unit().name, "_per_second")));
  }

  Trained trained;
  Losses losses;
};

}  // namespace rowgrad::testing
