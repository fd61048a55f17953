#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>

#include <nlohmann/json.hpp>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/report_files.hpp>
#include <rowgrad/optim/report/report_page.hpp>

namespace rowgrad {
OptionTable table_of(ReportOptions& options) {
  return {{"--report", &options.page, "page to look at: HTML file, written as the run goes on",
           file_name()},
          {"--open",
           &options.open,
           "shows that page in a browser when the run is over",
           {},
           needs("--report")},
          {"--report-data", &options.data, "JSON file of what the page shows", file_name()}};
}

std::string about_run(const CommandLine& line, const TextRun& training, const Corpus& corpus) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::ostringstream started;
  started << std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  const ProcessGroup* ranks = training.run.parts().ranks;
  const std::string each = ranks != nullptr ? concat(ranks->size(), " ranks, each ") : "";
  TrainOptions train = training.options();  // if it was resumed, those of its checkpoint
  std::map<std::string, std::string> options = texts_of(table_of(train));
  options.merge(texts_of(line.options()));
  const nlohmann::json all = {
      {"program", std::filesystem::path(line.program()).filename().string()},
      {"command", line.repeated()},
      {"started", started.str()},
      {"machine", each + blas::describe()},
      {"text", {{"source", corpus.source()}, {"bytes", corpus.bytes()}}},
      {"tokenizer", {{"name", train.tokenizer}, {"size", training.tokenizer().size()}}},
      {"tokens",
       {{"training", training.training_ids().size()},
        {"validation", training.validation_tokens()}}},
      {"options", options}};
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
