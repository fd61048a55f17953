#pragma once

// Writes what happens in a training run to a file, of which the program `report` makes a page:
//
//   RunLog log(run, "run.log");
//   run.train();
//
// A log has a JSON object on each line (core/base/json_lines.hpp), and only grows: each record
// costs what has changed since the last one. examples/rowgrad/report/FORMAT.md describes the
// records. The log of a program that was killed lacks at most the last second. A resumed run cuts
// its log to the length that it had at the checkpoint, as it makes the later steps again.

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

/// Returns true if a text begins like a log, whose first line may be incomplete.
bool is_run_log(std::string_view text);

struct RunLogOptions {
  /// A JSON object about the run: its program, text, options, …
  std::string about = "{}";
  /// Turns ids of tokens into strings; null for the ids themselves.
  const Tokenizer* tokenizer = nullptr;
  /// A history of rows, which was added to the run before; null for one of the log's own.
  RowHistory* rows = nullptr;
};

/// Never ends the run: see first_error().
class RunLog : public TrainingCallback {
 public:
  /// Logs a run, to which it is added as long as it lives. Borrows the run and what the options
  /// point to. The first record replaces the log of an earlier run. Throws std::runtime_error if
  /// the file has other contents, is open elsewhere or cannot be written. On ranks other than the
  /// first one, a log opens no file and does nothing.
  RunLog(TrainingRun& run, const std::filesystem::path& path, RunLogOptions options = {});

  /// Logs a loop of your own, which calls after_backward(), before_update() and after_step() in
  /// each step, and at_end().
  RunLog(Layer& model, const Optimizer& optimizer, const std::filesystem::path& path,
         RunLogOptions options = {});
  /// Also writes the end of a run that has failed or that was not ended by train().
  ~RunLog() override;

  /// Call it after a tape went backward.
  void after_backward(const Tape& tape);
  /// Call it when the gradients of a step are complete. A later call is a first_error().
  void before_update();
  /// Call it after the optimizer's step.
  void after_step(double loss);
  /// Writes all rows if the run has ended or a callback has stopped it, and otherwise the rows that
  /// had a gradient since they were written.
  void at_end();

  /// Adds a record of your own. FORMAT.md lists the members of `sample`, `evaluation` and other
  /// events that a page shows. Throws std::invalid_argument if `data` is not an object, if it has a
  /// member `event`, `step` or `sum`, and for the events that only the log writes: `run`, `curves`,
  /// `norms`, `table`, `rows` and `end`.
  void add(std::string_view event, const Json& data);

  /// Returns the first error of the log, or "". The log prints it on std::cerr, and writes it to
  /// the file as soon as that is possible. Records after an error are still written.
  const std::string& first_error() const { return fault_; }

  const RowHistory& rows() const { return rows_; }  // of the options, or the log's own

  /// Returns the length of the log, which is on the disk then, what continues it, and the log's own
  /// history of rows. Save it with the run. A callback that does so must be added after the log:
  /// between before_update() and after_step(), this throws std::logic_error.
  StateDict state_dict();

  /// Continues the log of a resumed run: the first record follows the ones that were in the file
  /// when the state was saved, and replaces later ones. A new log begins if the file has the log of
  /// another run, or is shorter. Throws std::logic_error after the first record, and
  /// std::invalid_argument for a state of another step or model.
  void load_state_dict(const StateDict& state);
  bool continues() const { return begin_ > 0; }  // true if it adds to the log in the file

  void after_backward(const TrainingRun&, const Tape& tape) override { after_backward(tape); }
  void before_update(const TrainingRun&) override { before_update(); }
  void after_step(const TrainingRun& run, const StepResult& result) override;
  void at_end(const TrainingRun&) override { at_end(); }
  CallbackNeeds needs() const override { return {.gradients = true}; }

 private:
  using Timer = RowHistory::Timer;
  // The numbers of the state.
  struct Counts {
    std::uint64_t last_frame = 0;
    // Points of curves are means over this many steps, which doubles now and then.
    std::uint64_t steps_a_point = 1, points = 0, summed = 0;
    double loss_sum = 0, row_sum = 0;     // of the steps since the last point
    std::uint64_t lookups = 0;            // in the first table, in a loop of one's own
    double seconds = 0, log_seconds = 0;  // of processes before this one
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

  TrainingRun* run_;  // null for a loop of one's own
  Layer& model_;
  const Optimizer& optimizer_;
  RunLogOptions options_;
  std::optional<JsonLines> file_;  // none on other ranks
  std::string id_;                 // of the run
  std::uint64_t begin_ = 0;        // bytes of the file in front of the first record
  bool has_begun_ = false, fault_is_noted_ = false;
  bool is_ended_ = true;  // true if there is no step after the last record `end`
  std::string fault_;
  std::uint64_t steps_ = 0;  // in a loop of one's own
  std::optional<RowHistory> own_rows_;
  RowHistory& rows_;
  std::uint64_t changes_ = 0;  // number of changes of the model, in a loop of one's own
  bool is_late_ = false, awaits_step_ = false;
  Json curves_{{"steps", Json::array()}}, norms_{{"steps", Json::array()}};  // not written yet
  Counts counts_;
  double rate_now_ = 0;                          // the learning rate of this step
  std::map<std::string, WrittenSteps> written_;  // by table
  Timer::Clock::time_point start_ = Timer::Clock::now(), next_flush_ = start_;
  Timer::Clock::duration cost_ = {};
};

}  // namespace rowgrad
