#pragma once

// Prints and writes the results of a run on a corpus.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/options.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

/// Prints the corpus, tokens, batches, options and model.
void print_start(const Session& session, const Corpus& corpus);

/// Prints the file and step from which a run resumes, and the `changes` of its options.
void print_resumed(const TrainingRun& run, const std::string& file, const std::string& changes);

/// Returns a sentence for each rank whose TrainingRun::arithmetic() differs from rank 0's. All
/// ranks must call it; `ranks` is null for one process.
std::vector<std::string> other_arithmetic(ProcessGroup* ranks);

/// Prints how ranks exchanged gradients in the last `steps` steps.
void print_exchange(const Session& session, const ProcessGroup& ranks, std::size_t steps);

/// The results of a run.
struct RunResults {
  std::optional<double> validation_loss = {}, validation_unigram_loss = {};
  std::optional<std::string> sample = {};
};

/// Returns the options, sizes, history and results as JSON.
std::string run_json(const Session& session, const Corpus& corpus, const RunResults& results);

/// Returns epochs as CSV: epoch, steps, training_loss, validation_loss (empty without validation),
/// and a speed, usually tokens_per_second.
std::string metrics_csv(const TrainingRun& run);

/// A callback that writes a file after each epoch, every `every` steps (0: only after epochs), and
/// when the run ends or stops. Does nothing if `path` is "".
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
  bool has_news_ = false;  // true if steps followed the last write
};

}  // namespace rowgrad
