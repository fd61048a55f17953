#pragma once

#include <functional>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// A text that a model generated.
struct Sample {
  std::size_t steps = 0;  // steps made before the sample
  std::string text = {};  // includes the prompt
};

/// Options of Samples.
struct SampleOptions {
  /// The ids that the model continues; at least one.
  Ids prompt;
  /// If `on_token` stops a sample, the sample is not kept. A max_new_tokens of 0 disables samples.
  GenerateOptions generate = {};
  /// Each sample uses a new generator with this seed.
  std::uint64_t seed = 0;
  std::size_t every = 0;  // steps between samples; 0 for none
  bool epochs = false;    // if true, also samples after epochs
  /// Called with each sample.
  std::function<void(const std::string& text)> show = {};
};

/// A callback that generates samples with the model. Samples begin with the prompt.
class Samples : public TrainingCallback {
 public:
  /// Borrows `samples` and the tokenizer. Appends to `samples`, which may contain earlier samples
  /// of a resumed run.
  Samples(std::vector<Sample>& samples, const Tokenizer& tokenizer, SampleOptions options);

  /// Returns a new sample, without adding it.
  std::string write(const TrainingRun& run);

  /// Returns SampleOptions::prompt.
  const Ids& prompt() const { return options_.prompt; }

  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, const StepResult&) override;

 private:
  void make(const TrainingRun& run);

  std::vector<Sample>& samples_;
  const Tokenizer& tokenizer_;
  SampleOptions options_;
  bool was_stopped_ = false;  // true if on_token stopped the last sample
};

}  // namespace rowgrad
