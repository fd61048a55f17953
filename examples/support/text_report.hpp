#pragma once

// The log of a run on a text, and the page that is made of it as the run goes on.

#include <chrono>
#include <string>

#include <rowgrad/examples/support/options.hpp>
#include <rowgrad/examples/support/outputs.hpp>
#include <rowgrad/examples/support/text_run.hpp>
#include <rowgrad/optim/callbacks/run_log.hpp>

namespace rowgrad {

/// The files of a report, "" for none.
struct ReportFiles {
  std::string page = {};  // HTML
  std::string data = {};  // JSON
  std::string log = {};   // from which both are made; next to them if not given
};

/// Returns the options of the files.
OptionTable option_table_of(ReportFiles& files);

/// Returns true if there is one of them.
bool is_wanted(const ReportFiles& files);

/// Returns what a program writes for them. The log is first: RunLog refuses other files.
std::vector<Output> outputs_of(const ReportFiles& files);

/// Writes the log of a run and, at the end and now and then before, the page and its data.
class TextReport : public TrainingCallback {
 public:
  /// Adds the log and itself to the run. Borrows the run and `rows`, which was added before. With
  /// the `state` of an earlier log, continues it. `force` replaces another file. Throws
  /// std::runtime_error if there is to be a page and its parts were not there at build time, and if
  /// the log cannot be written.
  TextReport(const CommandLine& line, TextRun& training, const Corpus& corpus,
             const ReportFiles& files, RowHistory& rows, Ids prompt, const Checkpoint& state = {},
             bool force = false);
  ~TextReport() override;

  RunLog& log() { return log_; }

  /// Writes the files after the run, and says where they are. Throws std::runtime_error if the
  /// report is not complete.
  void finish();

  void after_step(const TrainingRun& run, const StepResult& result) override;
  /// Adds what the model makes of its text, unless the user has stopped the program.
  void at_end(const TrainingRun& run) override;

 private:
  void begin(const Checkpoint& state);
  void read_text();

  TextRun& training_;
  ReportFiles files_;
  RowHistory& rows_;
  Ids prompt_;
  RunLog log_;
  std::chrono::steady_clock::time_point last_end_;
  std::chrono::steady_clock::duration last_cost_ = {};
  bool fails_ = false;  // to be written
  std::string fault_;   // of reading the text
};

}  // namespace rowgrad
