#pragma once

// The log of a run on a corpus, and its page, which is written during the run.

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/session/scratch_folder.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/optim/callbacks/run_log.hpp>

namespace rowgrad {

/// Returns true if any of these files is requested.
bool is_wanted(const ReportFiles& files);

/// Returns the outputs for these files. Throws std::invalid_argument if the log is a device.
std::vector<Output> outputs_of(const ReportFiles& files);

/// A callback that writes the log of a run and, from time to time, its page and data.
class TextReport : public TrainingCallback {
 public:
  /// Adds the log and itself to the run. Borrows the run and `rows`, which must have been added to
  /// the run before. Continues an earlier log if `state` is its state; prints a line if a resumed
  /// run has a new log. With `force`, the log may replace any file. Throws std::runtime_error if
  /// the log cannot be written, or if the program was built without the page.
  TextReport(const CommandLine& line, Session& session, const Corpus& corpus,
             const ReportFiles& files, RowHistory& rows, Ids prompt, const StateDict& state = {},
             bool force = false);
  ~TextReport() override;

  RunLog& log() { return log_; }

  /// Calls `train`, which trains the run. Writes exceptions to the files and rethrows them.
  void train(const std::function<void()>& train);

  /// Writes the files and prints their paths. Throws std::runtime_error if the report is
  /// incomplete.
  void finish();

  void after_step(const TrainingRun& run, const StepResult& result) override;
  /// Adds the analysis of the corpus, unless the user stopped the program.
  void at_end(const TrainingRun& run) override;

 private:
  void begin(const StateDict& state);
  void read_text();
  void write();
  void try_to_write();

  Session& session_;
  ReportFiles files_;
  RowHistory& rows_;
  Ids prompt_;
  std::optional<ScratchFolder> folder_;  // contains a temporary log
  std::string log_path_;
  RunLog log_;
  std::chrono::steady_clock::time_point last_end_;
  std::chrono::steady_clock::duration last_cost_ = {};
  bool has_failed_ = false;  // true if the page could not be written
  bool has_ended_ = false;   // true after at_end()
  std::string fault_;        // error of the analysis
};

}  // namespace rowgrad
