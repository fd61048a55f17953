#pragma once

// The output of a run, which its first rank or a process alone shows and writes.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/examples/rowgrad/options/train_settings.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/run_output.hpp>
#include <rowgrad/examples/rowgrad/output/text_report.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>
#include <rowgrad/optim/callbacks/samples.hpp>

namespace rowgrad {

/// Prints and writes everything that only the first rank does: the start, progress, samples and, if
/// they are wanted, metrics, the history of rows and the report. As a callback, it evaluates the
/// model at the end, and writes and prints the results. Call start(), watch() and train() in this
/// order.
class FirstRank : public TrainingCallback {
 public:
  /// Borrows all arguments except the last one. Throws std::invalid_argument if the settings want
  /// an export for GPT-2 that the model cannot have, and std::runtime_error if it would replace the
  /// file of another model.
  FirstRank(const TrainSettings& settings, const Corpus& corpus, Session& session,
            const Ids& prompt);

  /// Prints the text and the model, the step of the run whose file will be replaced, with which
  /// `changes` a run is resumed, and the other_arithmetic() of ranks.
  void start(std::optional<std::uint64_t> replaced, const std::string& changes,
             const std::vector<std::string>& others) const;

  /// Prints the `losses` before training and adds to the run what watches it. `watched` is what
  /// watched() returned when the resumed run was saved.
  void watch(const CommandLine& line, const std::optional<TrainingRecord>& losses,
             const StateDict& watched);

  /// Returns the state of what watches the run, which checkpoints keep.
  StateDict watched();

  /// Trains the run, and completes the report, even if training throws. Call it after the callback
  /// that saves the run has been added, because results come after the last checkpoint.
  void train(std::size_t last_step);

  void at_end(const TrainingRun& run) override;

 private:
  void check_gpt2_export() const;
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
