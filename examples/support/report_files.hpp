#pragma once

// --report, --report-data and --open of the programs.

#include <cstdint>
#include <string>

#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/optim/report/run_report.hpp>

namespace CLI {
class App;
}

namespace rowgrad {

struct ReportOptions {
  std::string page = "";
  std::string data = "";
  bool open = false;

  bool wanted() const { return !page.empty() || !data.empty(); }
};

void add_report_options(CLI::App& app, ReportOptions& options);

/// What a report says about a run on a text before it begins, as JSON.
struct AboutRun {
  std::string source;  // of the text
  std::uint64_t bytes = 0;
  std::string tokenizer;
  std::size_t vocabulary = 0;
  std::uint64_t training_tokens = 0, validation_tokens = 0;
  std::size_t ranks = 1;
};
std::string about_run(const CLI::App& app, const AboutRun& about);

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
