#pragma once

// Prints and writes the results of a run on a text.

#include <functional>
#include <optional>
#include <string>

#include <rowgrad/examples/rowgrad/options/options.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// Prints the text, tokens, batches and model before training.
void print_start(const Session& training, const Corpus& corpus);

/// Prints how gradients went between ranks in the last `steps` steps.
void print_exchange(const Session& training, const ProcessGroup& ranks, std::size_t steps);

/// The results at the end.
struct RunResults {
  std::optional<double> validation_loss = {}, validation_unigram_loss = {};
  std::optional<std::string> sample = {};
};

/// Returns options, sizes, history and results as JSON.
std::string run_json(const Session& training, const Corpus& corpus, const RunResults& results);

/// Returns the losses by epoch as CSV: epoch, steps, training_loss, validation_loss (empty without
/// validation), tokens_per_second.
std::string metrics_csv(const TrainingRun& run);

/// Calls `write` after each epoch, every `every` steps (0 for none within an epoch), and at the end
/// of the run or where it is stopped. Does nothing if `write` is null.
class RunFile : public TrainingCallback {
 public:
  explicit RunFile(std::function<void()> write, std::size_t every = 0, CallbackNeeds needs = {});

  CallbackNeeds needs() const override { return needs_; }
  void after_step(const TrainingRun& run, const StepResult& result) override;
  void at_end(const TrainingRun&) override;

  void rewrite();

 private:
  std::function<void()> write_;
  std::size_t every_;
  CallbackNeeds needs_;
  bool has_written_ = false;
  bool has_news_ = false;  // since it was written
};

}  // namespace rowgrad
