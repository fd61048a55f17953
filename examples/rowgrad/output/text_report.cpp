#include <cmath>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#include <rowgrad/core/base/columns.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/rowgrad/output/text_report.hpp>
#include <rowgrad/examples/rowgrad/report/report_data.hpp>
#include <rowgrad/examples/rowgrad/report/report_page.hpp>
#include <rowgrad/examples/rowgrad/report/run_analysis.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kShareOfTime = 200;  // writing takes at most 1/200 of the time of a run

// Returns the path of the log; "" for a temporary log, if the page goes to a pipe or a device.
std::string log_of(const ReportFiles& files) {
  if (!files.log.empty() || !is_wanted(files)) return files.log;
  std::error_code none;
  const std::string& report = files.page.empty() ? files.data : files.page;
  return fs::exists(report, none) && !fs::is_regular_file(report, none) ? "" : report + ".log";
}

std::string about_run(const CommandLine& line, const Session& session, const Corpus& corpus) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::ostringstream started;
  started << std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  const TrainingRanks* ranks = session.run().options().ranks;
  const std::string each = ranks != nullptr ? concat(ranks->group().size(), " ranks, each ") : "";
  TrainOptions train = session.options();  // from the checkpoint if the run was resumed
  OptionTable options = table_of_model(train);
  const OptionTable of_run = option_table_of(train);
  for (const Option& option : line.options())
    if (find(of_run, option.name) == nullptr) options.push_back(option);
  Json all{
      {"program", fs::path(line.program()).filename().string()},
      {"command", line.repeated()},
      {"started", started.str()},
      {"machine", each + blas::describe()},
      {"text", {{"source", corpus.source()}, {"bytes", corpus.bytes()}}},
      {"tokenizer", {{"name", train.tokenizer}, {"size", session.tokenizer().size()}}},
      {"tokens",
       {{"training", session.training_ids().size()}, {"validation", session.validation_tokens()}}}};
  for (const auto& [name, text] : texts_of(options)) all["options"][name] = text;
  return all.dump();
}

// Returns the path. With `force`, truncates a file that is not a log.
const std::string& prepared(const std::string& path, bool force) {
  if (force && file_exists(path) && !kRunLog.is_in(path)) write_file(path, "");
  return path;
}

}  // namespace

bool is_wanted(const ReportFiles& files) {
  return !files.page.empty() || !files.data.empty() || !files.log.empty();
}

std::vector<Output> outputs_of(const ReportFiles& files) {
  std::error_code none;
  check_argument(!fs::exists(files.log, none) || fs::is_regular_file(files.log, none),
                 "--log: ", files.log,
                 " is not a regular file, expected one because the page is built from the log");
  const char* const option = files.log.empty() ? "--log, by default next to the report" : "--log";
  return {{"--report", files.page, kReportPage},
          {"--report-data", files.data, kReportData},
          {option, log_of(files), kRunLog}};
}

TextReport::TextReport(const CommandLine& line, Session& session, const Corpus& corpus,
                       const ReportFiles& files, RowHistory& rows, Ids prompt,
                       const StateDict& state, bool force)
    : session_(session),
      files_(files),
      rows_(rows),
      prompt_(std::move(prompt)),
      log_path_(log_of(files).empty() ? folder_.emplace().path() + "/log" : log_of(files)),
      log_(session.run(), prepared(log_path_, force),
           {.about = about_run(line, session, corpus),
            .tokenizer = &session.tokenizer(),
            .rows = &rows}) {
  if (!files.page.empty()) check_report_page();
  begin(state);
  session.run().add(*this);
}

TextReport::~TextReport() { session_.run().remove(*this); }

// Loads the state of the log. A new log gets the earlier evaluations and samples of the run.
void TextReport::begin(const StateDict& state) {
  if (!state.empty()) log_.load_state_dict(state);
  if (log_.continues()) return;
  if (const std::size_t steps = session_.run().steps(); steps > 0 && !folder_)
    std::cout << log_path_ << ": starts a new log at step " << steps << ", because "
              << (state.empty() ? "earlier steps were not logged\n"
                                : "the file does not have the log of this run\n");
  if (dynamic_cast<const LanguageModel*>(&session_.model()) != nullptr) {
    const TokenSequence* const validation = session_.validation_ids();
    const std::size_t vocabulary = session_.tokenizer().size();
    log_.add("baselines",
             {{"uniform", rounded(std::log(static_cast<double>(vocabulary)))},
              {"unigram",
               rounded(unigram_loss(session_.training_ids(),
                                    validation != nullptr ? *validation : session_.training_ids(),
                                    vocabulary))}});
  }
  for (const TrainingRecord& record : session_.run().history()) {
    Json data{{"steps", record.steps},
              {"training_loss", record.training_loss},
              {"validation_loss", record.validation_loss}};
    if (record.ends_epoch()) data["epoch"] = record.epoch;
    log_.add("evaluation", data);
  }
  for (const Sample& sample : session_.samples())
    log_.add("sample", {{"steps", sample.steps}, {"text", sample.text}});
}

void TextReport::write() {
  if (!files_.page.empty() || !files_.data.empty())
    write_report(log_path_, files_.page, files_.data);
}

// Writes the files. After an error, later steps try again.
void TextReport::try_to_write() {
  try {
    write();
  } catch (const std::exception& error) {
    if (!std::exchange(has_failed_, true))
      std::cerr << "\nThe report is incomplete: " << error.what() << '\n';
  }
}

// Writes the page of the steps so far, unless this would slow down the run.
void TextReport::after_step(const TrainingRun& run, const StepResult&) {
  const auto begin = Clock::now();
  if (!run.has_more_steps() || begin - last_end_ < kShareOfTime * last_cost_) return;
  try_to_write();
  last_end_ = Clock::now();
  last_cost_ = last_end_ - begin;
}

void TextReport::read_text() {
  const TrainOptions& options = session_.options();
  const std::uint64_t trained =
      session_.run().steps() * options.accumulate * options.loader.batch * options.gpt.context;
  add_analysis(log_, rows_,
               {.model = session_.model(),
                .training = session_.training_ids(),
                .validation = session_.validation_ids(),
                .trained_tokens = trained,
                .prompt = prompt_,
                .tables = session_.run().tables(),
                .should_continue = [] { return !interrupted(); }});
}

// Reads the corpus during the callback, because reading may fetch rows of sharded tables.
void TextReport::at_end(const TrainingRun&) {
  has_ended_ = true;
  try {
    if (!interrupted()) read_text();
  } catch (const std::exception& error) {
    fault_ = error.what();
    log_.add("fault", {{"text", fault_}});
  }
}

void TextReport::train(const std::function<void()>& train) {
  try {
    train();
  } catch (const std::exception& error) {
    log_.add("fault", {{"text", concat("the run failed: ", error.what())}});
    // After an error, rows of other ranks cannot be fetched.
    if (!has_ended_ && session_.run().tables() == nullptr) log_.at_end();
    try_to_write();
    throw;
  }
}

void TextReport::finish() {
  write();
  const std::string& fault = log_.first_error().empty() ? fault_ : log_.first_error();
  check_runtime(fault.empty(), "the report is incomplete: ", fault);
  if (!files_.page.empty()) std::cout << "Report in  " << files_.page << '\n';
  if (!files_.data.empty()) std::cout << "Its data in " << files_.data << '\n';
  if (!folder_) std::cout << "Its log in " << log_path_ << '\n';
}

}  // namespace rowgrad
