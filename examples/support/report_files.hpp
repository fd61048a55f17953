#pragma once

// --report, --report-data and --open of the programs.

#include <cstdint>
#include <string>

#include <rowgrad/examples/support/command_line.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/text_run.hpp>
#include <rowgrad/optim/report/run_report.hpp>

namespace rowgrad {

struct ReportOptions {
  std::string page = "";
  std::string data = "";
  bool open = false;

  bool wanted() const { return !page.empty() || !data.empty(); }
};

OptionTable table_of(ReportOptions& options);

/// What a report says about a run before it begins, as JSON.
std::string about_run(const CommandLine& line, const TextRun& training, const Corpus& corpus);

/// The files of a report, which no other program may write meanwhile.
class ReportFiles {
 public:
  /// Throws std::runtime_error if there is to be a page and its parts are not in the program.
  explicit ReportFiles(const ReportOptions& options);

  /// Names the files and writes them.
  RunReportOptions report_options();

  /// Says where they are, and shows the page if that is wanted and the user has not stopped the
  /// program.
  void announce() const;

 private:
  const ReportOptions& options_;
  OwnFile page_;
  OwnFile data_;
};

}  // namespace rowgrad
