#pragma once

// --report, --report-data and --open of the programs.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include <rowgrad/examples/support/output_files.hpp>

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

/// What a report says about a run on a text before it begins.
nlohmann::json about_run(const CLI::App& app, const std::string& source, std::uint64_t bytes,
                         const std::string& tokenizer, std::size_t vocabulary);

class ReportFiles {
 public:
  /// Throws std::runtime_error if there is to be a page and its parts are not in the program.
  explicit ReportFiles(const ReportOptions& options);

  /// Writes the page and its data, those that are wanted.
  void write(const nlohmann::json& report);

  /// Writes what `report` returns, unless the last time was so recent that it would slow the run. A
  /// file that cannot be written is only mentioned, once: the work goes on.
  void write_if_due(const std::function<nlohmann::json()>& report);

  /// Says where they are.
  void announce() const;

 private:
  using Clock = std::chrono::steady_clock;

  const ReportOptions& options_;
  OwnFile page_;
  OwnFile data_;
  bool has_failed_ = false;
  Clock::time_point last_end_ = Clock::now();
  Clock::duration last_cost_ = {};
};

}  // namespace rowgrad
