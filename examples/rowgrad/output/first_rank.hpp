#pragma once

// The output of a run, which its first rank or a process alone shows and writes.

#include <functional>
#include <optional>
#include <string>

#include <rowgrad/examples/rowgrad/options/train_settings.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/run_output.hpp>
#include <rowgrad/examples/rowgrad/output/text_report.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>
#include <rowgrad/optim/callbacks/samples.hpp>

namespace rowgrad {

/// Watches a run: progress, samples and, if they are wanted, the history of rows and the report.
/// As a callback, it writes the metrics and, at the end, evaluates the model and writes and prints
/// the results.
class FirstRank : public TrainingCallback {
 public:
  /// Adds to the run what watches it. Add the object itself after the callback that saves the run,
  /// as results come after the last checkpoint. Borrows all arguments except the last two.
  /// `watched` is what watched() returned when the resumed run was saved.
  FirstRank(const CommandLine& line, const TrainSettings& settings, const Corpus& corpus,
            Session& session, const Ids& prompt, const Checkpoint& watched);

  /// Returns the state of what watches the run, which checkpoints keep.
  Checkpoint watched();

  /// Calls `train`, which trains the run, and completes the report, even if it throws.
  void train(const std::function<void()>& train);

  void after_step(const TrainingRun& run, const StepResult& result) override;
  void at_end(const TrainingRun& run) override;

 private:
  bool keeps_rows() const;
  SampleOptions sample_options(const Ids& prompt);
  void show_sample(const std::string& text);
  void add_validation(RunResults& results);
  void add_sample(RunResults& results);
  std::string write_rows();
  void export_gpt2();
  void print_end(const std::string& rows) const;

  const TrainSettings& settings_;
  const Corpus& corpus_;
  Session& session_;
  std::size_t first_step_;  // of this process
  RowHistory rows_;
  std::optional<TextReport> report_;
  ProgressLines progress_;
  Samples samples_;
  RunFile metrics_;
};

}  // namespace rowgrad
