#pragma once

// The output of a run, printed and written by its first rank.

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

/// The output of the first rank: the run's start, progress, samples and, if requested, metrics, the
/// row list and the report. At the end, evaluates the model, and writes and prints the results.
/// Call start(), watch() and train() in this order.
class FirstRank : public TrainingCallback {
 public:
  /// Borrows all arguments except `prompt`. Throws std::invalid_argument if the settings request an
  /// export for GPT-2 that the model does not support, and std::runtime_error if the export would
  /// replace the file of another model.
  FirstRank(const TrainSettings& settings, const Corpus& corpus, Session& session,
            const Ids& prompt);

  /// Prints the corpus and the model. Also prints the step of a saved run that will be `replaced`,
  /// the `changes` of a resumed run, and `others`, the result of other_arithmetic().
  void start(std::optional<std::uint64_t> replaced, const std::string& changes,
             const std::vector<std::string>& others) const;

  /// Prints the `losses` before training and adds the callbacks to the run. `watched` is the state
  /// that watched() returned when the resumed run was saved.
  void watch(const CommandLine& line, const std::optional<TrainingRecord>& losses,
             const StateDict& watched);

  /// Returns the state of the callbacks, for checkpoints.
  StateDict watched();

  /// Trains the run, and completes the report even if training throws. Requires: the callback that
  /// saves the run has been added, so that results follow the last checkpoint.
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
  std::size_t first_step_;  // steps before this process started
  RowHistory rows_;
  std::optional<TextReport> report_;
  ProgressLines progress_;
  Samples samples_;
  RunFile metrics_;
};

}  // namespace rowgrad
