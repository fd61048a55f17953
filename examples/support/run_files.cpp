#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/run_files.hpp>

namespace rowgrad {

RunFile::RunFile(std::string path, std::size_t every, std::function<void()> write)
    : path_(std::move(path)), every_(every), write_(std::move(write)) {}

void RunFile::after_record(const TrainingRun&, const TrainingRecord& record) {
  has_news_ = true;
  ended_epoch_ |= record.ends_epoch();
}

void RunFile::after_step(const TrainingRun& run, double /*loss*/) {
  has_news_ = true;
  if (ended_epoch_ || (every_ > 0 && run.steps() % every_ == 0)) rewrite();
}

// A pipe gets nothing twice.
void RunFile::at_end(const TrainingRun&) {
  if (has_news_ || !has_written_) rewrite();
}

void RunFile::rewrite() {
  if (!path_.empty()) write_();
  has_written_ = true;
  has_news_ = ended_epoch_ = false;
}

std::string metrics_csv(const TrainingRun& run) {
  std::ostringstream csv;
  csv << "epoch,steps,training_loss,validation_loss," << run.unit().name << "_per_second\n"
      << std::setprecision(9);
  for (const TrainingRecord& record : run.history()) {
    if (!record.ends_epoch()) continue;
    csv << record.epoch << ',' << record.steps << ',' << record.training_loss << ',';
    if (record.validation_loss) csv << *record.validation_loss;
    csv << ',' << record.speed << '\n';
  }
  return std::move(csv).str();
}

OptionTable option_table_of(ReportOptions& options) {
  return {{"--report", &options.page, "page to look at: HTML file, written as the run goes on",
           file_name()},
          {"--report-data", &options.data, "JSON file of what the page shows", file_name()}};
}

RunReportOptions report_of(const TextRun& training, const ReportOptions& files, Ids prompt) {
  return {.page = files.page,
          .data = files.data,
          .tokenizer = &training.tokenizer(),
          .samples = &training.samples,
          .prompt = std::move(prompt),
          .goes_on = [] { return !interrupted(); }};
}

void announce(const RunReport& report, const ReportOptions& files) {
  check_runtime(report.fault().empty(), "the report is not complete: ", report.fault());
  if (!files.page.empty()) std::cout << "Report in  " << files.page << '\n';
  if (!files.data.empty()) std::cout << "Its data in " << files.data << '\n';
}

}  // namespace rowgrad
