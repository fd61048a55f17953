#pragma once

// Prints and writes the results of a run on a text.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/options.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// Prints the text, tokens, batches and model before training.
void print_start(const Session& session, const Corpus& corpus);

/// Prints where a run goes on, from which file, and with which `changes` of options.
void print_resumed(const TrainingRun& run, const std::string& file, const std::string& changes);

/// Says of each rank that computes in another way than the first one how they compute. All `ranks`
/// call it; there are none if it is null.
std::vector<std::string> other_arithmetic(ProcessGroup* ranks);

/// Prints how gradients went between ranks in the last `steps` steps.
void print_exchange(const Session& session, const ProcessGroup& ranks, std::size_t steps);

/// The results at the end.
struct RunResults {
  std::optional<double> validation_loss = {}, validation_unigram_loss = {};
  std::optional<std::string> sample = {};
};

/// Returns options, sizes, history and results as JSON.
std::string run_json(const Session& session, const Corpus& corpus, const RunResults& results);

/// Returns the losses by epoch as CSV: epoch, steps, training_loss, validation_loss (empty without
/// validation), tokens_per_second.
std::string metrics_csv(const TrainingRun& run);

/// Writes a file after each epoch, every `every` steps (0 for none within an epoch), and at the end
/// of the run or where it is stopped. Does nothing if `path` is "".
class RunFile : public TrainingCallback {
 public:
  using Write = std::function<void(const std::string& path)>;
  RunFile(std::string path, Write write, std::size_t every = 0, CallbackNeeds needs = {});

  CallbackNeeds needs() const override { return needs_; }
  void after_step(const TrainingRun& run, const StepResult& result) override;
  void at_end(const TrainingRun&) override;

  void rewrite();

 private:
  std::string path_;
  Write write_;
  std::size_t every_;
  CallbackNeeds needs_;
  bool has_written_ = false;
  bool has_news_ = false;  // since it was written
};

}  // namespace rowgrad
