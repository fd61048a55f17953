#pragma once

// The log of a run on a text, and the page that is made from it during the run.

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

/// Returns true if one of them is wanted.
bool is_wanted(const ReportFiles& files);

/// Returns what a program writes for them. Throws std::invalid_argument if the log is a device.
std::vector<Output> outputs_of(const ReportFiles& files);

/// Writes the log of a run and, at the end and from time to time before, the page and its data.
class TextReport : public TrainingCallback {
 public:
  /// Adds the log and itself to the run. Borrows the run and `rows`, which was added before. With
  /// the `state` of an earlier log, continues it, and says so if a resumed run has a new log.
  /// `force` replaces another file. Throws std::runtime_error if the log cannot be written, or if
  /// the parts of a page were not there at build time.
  TextReport(const CommandLine& line, Session& session, const Corpus& corpus,
             const ReportFiles& files, RowHistory& rows, Ids prompt, const StateDict& state = {},
             bool force = false);
  ~TextReport() override;

  RunLog& log() { return log_; }

  /// Calls `train`, which trains the run. If it throws, the files say why.
  void train(const std::function<void()>& train);

  /// Writes the files after the run, and says where they are. Throws std::runtime_error if the
  /// report is not complete.
  void finish();

  void after_step(const TrainingRun& run, const StepResult& result) override;
  /// Adds what the model makes of its text, unless the user has stopped the program.
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
  std::optional<ScratchFolder> folder_;  // of a temporary log
  std::string log_path_;
  RunLog log_;
  std::chrono::steady_clock::time_point last_end_;
  std::chrono::steady_clock::duration last_cost_ = {};
  bool has_failed_ = false;  // to write the page
  bool has_ended_ = false;   // the run
  std::string fault_;        // of reading the text
};

}  // namespace rowgrad
