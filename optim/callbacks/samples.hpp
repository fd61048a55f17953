#pragma once

#include <functional>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// A text that a model wrote.
struct Sample {
  std::size_t steps = 0;  // the steps after which it was made
  std::string text = {};  // the text with its prompt
};

/// Options of Samples.
struct SampleOptions {
  /// What the model continues, at least one id.
  Ids prompt;
  /// `on_token` stops a sample, which is then not kept. With a count of 0, there are none.
  GenerateOptions generate = {};
  /// Each sample draws from a generator with this seed.
  std::uint64_t seed = 0;
  /// The steps after which there is a sample; 0 for none. And whether there is one after epochs.
  std::size_t every = 0;
  bool epochs = false;
  /// Gets the samples that are made in the course of a run.
  std::function<void(const std::string& text)> show = {};
};

/// Has the model write in the course of its training. Texts begin with the prompt.
class Samples : public TrainingCallback {
 public:
  /// Adds to `samples`, which may have those of a run that is resumed. Borrows both.
  Samples(std::vector<Sample>& samples, const Tokenizer& tokenizer, SampleOptions options);

  /// A text of now, which is not added.
  std::string write(const TrainingRun& run);

  const Ids& prompt() const { return options_.prompt; }  // what texts begin with

  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, const StepResult&) override;

 private:
  void make(const TrainingRun& run);

  std::vector<Sample>& samples_;
  const Tokenizer& tokenizer_;
  SampleOptions options_;
  bool was_stopped_ = false;  // the last one, by on_token
};

}  // namespace rowgrad
