#pragma once

// Writes the events of a training run to a file, which `rowgrad report` turns into a page:
//
//   RunLog log(run, "run.log");
//   run.train();
//
// A log has a JSON object on each line (core/base/json_lines.hpp). The cost of a record depends on
// the changes since the last record. examples/rowgrad/report/FORMAT.md describes the records. If
// the program is killed, the log usually lacks at most the last second. A resumed run truncates its
// log to the length at the checkpoint, because the run repeats the later steps.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/json_lines.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>
#include <rowgrad/optim/callbacks/table_records.hpp>

namespace rowgrad {

/// Returns true if `text` starts like a log. Its first line may be incomplete.
bool is_run_log(std::string_view text);

struct RunLogOptions {
  /// A JSON object that describes the run: its program, corpus, options, …
  std::string about = "{}";
  /// Converts ids to strings; null to show ids.
  const Tokenizer* tokenizer = nullptr;
  /// A history that was added to the run before the log; null to create one.
  RowHistory* rows = nullptr;
};

/// A callback that writes the log of a run. Errors of the log never end the run: see first_error().
class RunLog : public TrainingCallback {
 public:
  /// Logs a run, as one of its callbacks until destruction. Borrows the run and the objects that
  /// the options point to. The first record replaces the log of an earlier run. Throws
  /// std::runtime_error if the file is not a log, is open elsewhere or cannot be written. Only the
  /// first rank opens a file; on other ranks, a log does nothing.
  RunLog(TrainingRun& run, const std::filesystem::path& path, RunLogOptions options = {});

  /// Logs your own loop, which must call after_backward(), before_update() and after_step() in each
  /// step, and at_end() after the last one.
  RunLog(Layer& model, const Optimizer& optimizer, const std::filesystem::path& path,
         RunLogOptions options = {});
  /// Writes the end of the run if at_end() was not called, as after a failure.
  ~RunLog() override;

  /// Records lookups. Call it after each backward pass.
  void after_backward(const Tape& tape);
  /// Records gradients. Call it when the gradients of a step are complete; first_error() reports a
  /// late call.
  void before_update();
  /// Records a step. Call it after the optimizer's step.
  void after_step(double loss);
  /// Writes all rows in your own loop, or if the run has ended or a callback stopped it.
  /// Otherwise writes rows that changed. Then writes `end`.
  void at_end();

  /// Adds a record. FORMAT.md lists the members of the events that a page shows. Throws
  /// std::invalid_argument if `data` is not an object, if it has a member `event`, `step` or `sum`,
  /// and for events that only the log writes: `run`, `curves`, `norms`, `table`, `rows` and `end`.
  void add(std::string_view event, const Json& data);

  /// Returns the first error of the log, or "". The log prints it to std::cerr, and adds it to the
  /// file as soon as possible. Later records are still written.
  const std::string& first_error() const { return fault_; }

  /// Returns RunLogOptions::rows or the log's own history.
  const RowHistory& rows() const { return rows_; }

  /// Writes the log to disk. Returns the log's length, counters and own row history. Save this
  /// state with the run, in a callback that was added after the log. Throws std::logic_error
  /// between before_update() and after_step().
  StateDict state_dict();

  /// Continues the log of a resumed run: the next record replaces all records written after the
  /// state was saved. Starts a new log if the file lacks saved records or is another run's log.
  /// Throws std::logic_error after the first record, and std::invalid_argument for a state of
  /// another step or model.
  void load_state_dict(const StateDict& state);
  /// Returns true if load_state_dict() continued the file's log.
  bool continues() const { return begin_ > 0; }

  void after_backward(const TrainingRun&, const Tape& tape) override { after_backward(tape); }
  void before_update(const TrainingRun&) override { before_update(); }
  void after_step(const TrainingRun& run, const StepResult& result) override;
  void at_end(const TrainingRun&) override { at_end(); }
  CallbackNeeds needs() const override { return {.gradients = true}; }

 private:
  using Timer = RowHistory::Timer;
  // The counters in the state.
  struct Counts {
    std::uint64_t last_frame = 0;  // step of the last record `rows`
    // A point of a curve is the mean over steps_a_point steps. This number doubles every kPoints
    // points.
    std::uint64_t steps_a_point = 1, points = 0, summed = 0;
    double loss_sum = 0, row_sum = 0;     // sums over the steps since the last point
    std::uint64_t lookups = 0;            // lookups in the first table, without a TrainingRun
    double seconds = 0, log_seconds = 0;  // times of earlier processes
  };

  RunLog(TrainingRun* run, Layer& model, const Optimizer& optimizer,
         const std::filesystem::path& path, RunLogOptions options);
  std::uint64_t step() const { return run_ != nullptr ? run_->steps() : steps_; }
  std::uint64_t changes() const;
  double seconds() const;
  double log_seconds() const;
  bool attempt(const std::function<void()>& call);
  bool write(std::string_view event, const Json& data);
  void put(std::string_view event, std::uint64_t step, const Json& data);
  Json header() const;
  void add_times(Json& data) const;
  void flush();
  void flush(std::string_view event, Json& points);
  void measure_norm(std::uint64_t step);
  void end_step(double loss);
  bool is_frame() const;
  void write_rows(bool whole);
  void write_rows(const TableHistory& table, bool whole);
  void write_end(bool finished);
  static void for_each_count(auto& counts, const auto& visit);

  TrainingRun* run_;  // null without a TrainingRun
  Layer& model_;
  const Optimizer& optimizer_;
  RunLogOptions options_;
  std::optional<JsonLines> file_;  // empty except on the first rank
  std::string id_;                 // identifies the run
  std::uint64_t begin_ = 0;        // length of the continued log, or 0
  bool has_begun_ = false, fault_is_noted_ = false;
  bool is_ended_ = true;  // true if no step follows the last record `end`
  std::string fault_;
  std::uint64_t steps_ = 0;  // steps of your own loop
  std::optional<RowHistory> own_rows_;
  RowHistory& rows_;
  std::uint64_t changes_ = 0;  // last changes() in your own loop
  bool is_late_ = false, awaits_step_ = false;
  Json curves_{{"steps", Json::array()}}, norms_{{"steps", Json::array()}};  // not yet written
  Counts counts_;
  double rate_now_ = 0;                          // learning rate of this step
  std::map<std::string, WrittenSteps> written_;  // by name of the table
  Timer::Clock::time_point start_ = Timer::Clock::now(), next_flush_ = start_;
  Timer::Clock::duration cost_ = {};
};

}  // namespace rowgrad
