#pragma once

// --report, --report-data and --open of the programs.

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include <rowgrad/examples/support/output_files.hpp>

namespace CLI {
class App;
}

namespace rowgrad {

struct DataFile;

struct ReportOptions {
  std::string page = "";
  std::string data = "";
  bool open = false;

  bool wanted() const { return !page.empty() || !data.empty(); }
};

void add_report_options(CLI::App& app, ReportOptions& options);

/// What a report says about a run before it begins.
nlohmann::json about_run(const CLI::App& app, const DataFile& text, const std::string& tokenizer,
                         std::size_t vocabulary);

class ReportFiles {
 public:
  /// Throws std::runtime_error if there is to be a page and its parts are not in the program.
  explicit ReportFiles(const ReportOptions& options);

  /// Writes the page and its data, those that are wanted.
  void write(const nlohmann::json& report);

  /// Says where they are.
  void announce() const;

 private:
  const ReportOptions& options_;
  OwnFile page_;
  OwnFile data_;
};

}  // namespace rowgrad
