#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/support/command_line.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/report_files.hpp>
#include <rowgrad/examples/support/report_page.hpp>

namespace rowgrad {
namespace {

constexpr int kShareOfTime = 100;  // that reports may take in the course of a run, one in 100

}  // namespace

void add_report_options(CLI::App& app, ReportOptions& options) {
  app.add_option("--report", options.page, "page to look at: HTML file, written as the run goes on")
      ->check(file_name());
  app.add_flag("--open", options.open, "shows that page in a browser when the run is over")
      ->needs("--report");
  app.add_option("--report-data", options.data, "JSON file of what the page shows")
      ->check(file_name());
}

nlohmann::json about_run(const CLI::App& app, const std::string& source, std::uint64_t bytes,
                         const std::string& tokenizer, std::size_t vocabulary) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::ostringstream started;
  started << std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  return {{"program", std::filesystem::path(app.get_name()).filename().string()},
          {"command", command_line(app)},
          {"started", started.str()},
          {"machine", blas::describe()},
          {"text", {{"source", source}, {"bytes", bytes}}},
          {"tokenizer", {{"name", tokenizer}, {"size", vocabulary}}},
          {"options", option_values(app)}};
}

ReportFiles::ReportFiles(const ReportOptions& options)
    : options_(options), page_(options.page), data_(options.data) {
  if (!options.page.empty()) check_report_page();
}

void ReportFiles::write(const nlohmann::json& report) {
  if (!options_.page.empty())
    page_.rewrite([&] { write_file(options_.page, report_page(report)); });
  if (!options_.data.empty())
    data_.rewrite([&] { write_file(options_.data, report_data(report)); });
}

void ReportFiles::write_if_due(const std::function<nlohmann::json()>& report) {
  const auto begin = Clock::now();
  if (!options_.wanted() || has_failed_ || begin - last_end_ < kShareOfTime * last_cost_) return;
  try {
    write(report());
  } catch (const std::exception& error) {
    std::cerr << "\nThe report is not written for now: " << error.what() << '\n';
    has_failed_ = true;
  }
  last_end_ = Clock::now();
  last_cost_ = last_end_ - begin;
}

void ReportFiles::announce() const {
  if (!options_.page.empty()) std::cout << "Report in  " << options_.page << '\n';
  if (!options_.data.empty()) std::cout << "Its data in " << options_.data << '\n';
}

}  // namespace rowgrad
