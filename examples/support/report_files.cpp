#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/support/command_line.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/report_files.hpp>
#include <rowgrad/optim/report/report_page.hpp>

namespace rowgrad {
void add_report_options(CLI::App& app, ReportOptions& options) {
  app.add_option("--report", options.page, "page to look at: HTML file, written as the run goes on")
      ->check(file_name());
  app.add_flag("--open", options.open, "shows that page in a browser when the run is over")
      ->needs("--report");
  app.add_option("--report-data", options.data, "JSON file of what the page shows")
      ->check(file_name());
}

std::string about_run(const CLI::App& app, const AboutRun& about) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::ostringstream started;
  started << std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  const std::string machine =
      concat(about.ranks > 1 ? concat(about.ranks, " ranks, each ") : "", blas::describe());
  const nlohmann::json all = {
      {"program", std::filesystem::path(app.get_name()).filename().string()},
      {"command", command_line(app)},
      {"started", started.str()},
      {"machine", machine},
      {"text", {{"source", about.source}, {"bytes", about.bytes}}},
      {"tokenizer", {{"name", about.tokenizer}, {"size", about.vocabulary}}},
      {"tokens", {{"training", about.training_tokens}, {"validation", about.validation_tokens}}},
      {"options", option_values(app)}};
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ReportFiles::ReportFiles(const ReportOptions& options)
    : options_(options), page_(options.page), data_(options.data) {
  if (!options.page.empty()) check_report_page();
}

RunReportOptions ReportFiles::report_options() {
  return {.page = options_.page,
          .data = options_.data,
          .goes_on = [] { return !interrupted(); },
          .write =
              [this](const std::string& path, const std::string& contents) {
                OwnFile& file = path == options_.page ? page_ : data_;
                file.rewrite([&] { write_file(path, contents); });
              }};
}

void ReportFiles::announce() const {
  if (!options_.page.empty()) std::cout << "Report in  " << options_.page << '\n';
  if (!options_.data.empty()) std::cout << "Its data in " << options_.data << '\n';
  if (options_.open && !interrupted()) open_in_browser(options_.page);
}

}  // namespace rowgrad
