#pragma once

// Watches a training run, and describes it for people: as a page, and as the data of it, which
// page/types.d.ts describes. Of a run of a LanguageModel on a text it shows most; but it works for
// any model, run and loop.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/training/row_history.hpp>
#include <rowgrad/optim/training/samples.hpp>

namespace rowgrad {

struct RunReportOptions {
  /// The files that are written as the run goes on; none if empty.
  std::string page = "";
  std::string data = "";
  /// A JSON object with more about the run: its program, text, options, …
  std::string about = "{}";
  /// Turns ids of the table of tokens into texts; null for the ids themselves.
  const Tokenizer* tokenizer = nullptr;
  /// The history of rows, if there is one: a callback that was added before. Null for one of its
  /// own.
  const RowHistory* rows = nullptr;
  /// What the model wrote, if it did.
  const std::vector<Sample>* samples = nullptr;
  /// The attention on it is shown, if the model is a GPT.
  Ids prompt = Ids::from_shape({0});
  /// Asked while the model reads its text at the end: false leaves out the rest. If it is false at
  /// the end of the run, nothing is read at all.
  std::function<bool()> goes_on = [] { return true; };
  /// Writes a file; what it throws is a fault().
  std::function<void(const std::string& path, const std::string& contents)> write = {};
};

/// Does not end the run that it reports on: see fault().
class RunReport : public TrainingCallback {
 public:
  /// Reports on a run, of which it is a callback as long as it lives. Borrows the run, which must
  /// outlive it, and what the options point to. Throws std::runtime_error if there is to be a page
  /// and its parts were not there when this was built. Of several ranks, the first one reports.
  RunReport(TrainingRun& run, RunReportOptions options);

  /// Reports on a loop of one's own, which calls the next functions, as a run does.
  RunReport(Layer& model, const Optimizer& optimizer, RunReportOptions options);
  ~RunReport() override;

  /// After a tape of a step went backward, which tells what was looked up; after the gradients of
  /// the step are complete; after the step, with its loss; and at the end. That before_update() was
  /// not called for a step, or only after it was made, is a fault().
  void after_backward(const Tape& tape);
  void before_update();
  void after_step(double loss);
  void at_end();

  /// The history of rows, its own or that of the options.
  const RowHistory& rows() const { return rows_; }

  /// Adds losses that the run did not compute; NaN for none.
  void add(const TrainingRecord& record) { more_records_.push_back(record); }

  /// The data so far; at the end with what the model makes of the text and, if it is a GPT, of the
  /// prompt.
  std::string data(bool at_end = false);

  /// What went wrong first, in the course of the run, while the model read its text at the end, or
  /// while the report was written; empty if nothing did. It is said on std::cerr, the page has it,
  /// and the run goes on. What could not be written is tried again at the end only.
  const std::string& fault() const { return fault_.empty() ? write_fault_ : fault_; }

  void after_backward(const TrainingRun&, const Tape& tape) override { after_backward(tape); }
  void before_update(const TrainingRun& run) override {
    steps_ = run.steps();
    before_update();
  }
  void after_step(const TrainingRun& run, const StepResult& result) override;
  void at_end(const TrainingRun&) override { at_end(); }
  CallbackNeeds needs() const override { return {.gradients = true}; }

 private:
  using Timer = RowHistory::Timer;
  using Clock = Timer::Clock;

  // One number for each n steps, n such that there are at most kMostPoints.
  struct Curves {
    std::vector<std::uint64_t> step;
    std::vector<double> loss, learning_rate, speed, rows;
  };
  RunReport(TrainingRun* run, Layer& model, const Optimizer& optimizer, RunReportOptions options);
  std::uint64_t changes() const;
  TablePlacement* tables() const { return run_ != nullptr ? run_->tables() : nullptr; }
  void measure_norm();
  void add_point(double loss, double speed);
  void halve_curves();
  void write_if_due();
  void write(bool at_end);
  static void attempt(std::string& fault, const auto& call);
  void add_losses(Json& report) const;
  void add_analysis(Json& report) const;
  void add_reading(Json& report) const;

  static constexpr std::size_t kMostPoints = 4000;

  TrainingRun* run_;  // null for a loop of one's own
  Layer& model_;
  const Optimizer& optimizer_;
  RunReportOptions options_;
  std::size_t first_step_;
  std::size_t steps_;
  std::size_t lookups_ = 0;  // in the first table
  // How often the values have changed, whether they have between the last step and before_update(),
  // and whether that was called.
  std::uint64_t changes_ = 0;
  bool changed_before_ = false, awaits_step_ = false;
  std::optional<RowHistory> own_rows_;
  const RowHistory& rows_;
  double uniform_loss_ = 0, unigram_loss_ = 0;
  Curves curves_;
  std::size_t steps_a_point_ = 1;
  double loss_sum_ = 0, row_sum_ = 0;  // of the steps since the last point
  std::size_t summed_ = 0;
  std::vector<std::uint64_t> norm_step_;
  std::vector<double> norm_, clipped_;
  std::size_t rows_now_ = 0;  // of the step that is made,
  double rate_now_ = 0;       // and its learning rate
  std::vector<TrainingRecord> more_records_;
  Clock::time_point start_ = Clock::now();
  Clock::duration cost_ = {};  // what all of this took, but for writing at the end
  std::string fault_, write_fault_;
  Clock::time_point last_end_ = Clock::now();
  Clock::duration last_cost_ = {};
};

}  // namespace rowgrad
