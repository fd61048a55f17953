#pragma once

// Writes what happens in a training run to a file, of which the program `report` makes a page:
//
//   RunLog log(run, "run.log");
//   run.train();
//
// A log has a JSON object on each line (core/base/json_lines.hpp), and only grows: each record
// costs what has changed since the last one. examples/report/FORMAT.md describes the records. The
// log of a program that was killed lacks at most the last second.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/json_lines.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

/// Returns true if a text begins like a log.
bool is_run_log(std::string_view text);

struct RunLogOptions {
  /// A JSON object about the run: its program, text, options, …
  std::string about = "{}";
  /// Turns ids of tokens into strings; null for the ids themselves.
  const Tokenizer* tokenizer = nullptr;
  /// A history of rows, which was added to the run before; null for one of the log's own.
  RowHistory* rows = nullptr;
};

/// Never ends the run: see fault().
class RunLog : public TrainingCallback {
 public:
  /// Logs a run, to which it is added as long as it lives. Borrows the run and what the options
  /// point to. The first record replaces the log of an earlier run. Throws std::runtime_error if
  /// the file has other contents, is open elsewhere or cannot be written. With several ranks, only
  /// the first one has a log.
  RunLog(TrainingRun& run, const std::filesystem::path& path, RunLogOptions options = {});

  /// Logs a loop of your own, which calls the next four functions.
  RunLog(Layer& model, const Optimizer& optimizer, const std::filesystem::path& path,
         RunLogOptions options = {});
  ~RunLog() override;

  /// Call them after a tape went backward, when the gradients of a step are complete, after the
  /// step, and at the end. It is a fault() if before_update() does not precede the update.
  void after_backward(const Tape& tape);
  void before_update();
  void after_step(double loss);
  void at_end();

  /// Adds a record of your own: a sample, an evaluation, what the model makes of a text. `data` is
  /// an object without the members `event`, `step` and `sum`.
  void add(std::string_view event, const Json& data);

  /// Returns what went wrong first; empty if nothing did. It is said on std::cerr and in the log,
  /// if that is possible. Later records are tried all the same.
  const std::string& fault() const { return fault_; }

  const RowHistory& rows() const { return rows_; }  // of the options, or the log's own

  /// Returns what a resumed run needs to continue the log, to be saved with the run, and the log's
  /// own history of rows. Load it before the first step. If the file does not have the log of this
  /// run, a new one begins.
  Checkpoint state_dict();
  void load_state_dict(const Checkpoint& state);
  bool continues() const { return continues_; }  // true if it adds to the log in the file

  void after_backward(const TrainingRun&, const Tape& tape) override { after_backward(tape); }
  void before_update(const TrainingRun&) override { before_update(); }
  void after_step(const TrainingRun& run, const StepResult& result) override;
  void at_end(const TrainingRun&) override { at_end(); }
  CallbackNeeds needs() const override { return {.gradients = true}; }

 private:
  using Timer = RowHistory::Timer;

  RunLog(TrainingRun* run, Layer& model, const Optimizer& optimizer,
         const std::filesystem::path& path, RunLogOptions options);
  std::uint64_t step() const { return run_ != nullptr ? run_->steps() : steps_; }
  std::uint64_t changes() const;
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
  std::map<std::string, std::variant<std::uint64_t*, double*>> numbers();

  TrainingRun* run_;  // null for a loop of one's own
  Layer& model_;
  const Optimizer& optimizer_;
  RunLogOptions options_;
  JsonLines file_;
  std::string id_;  // of the run
  bool has_begun_ = false, continues_ = false, fault_is_noted_ = false;
  std::string fault_;
  std::uint64_t steps_ = 0, loaded_step_ = 0, last_frame_ = 0;
  std::optional<RowHistory> own_rows_;
  RowHistory& rows_;
  // In a loop of one's own: lookups in the first table, and how often the model has changed.
  std::uint64_t lookups_ = 0, changes_ = 0;
  bool is_late_ = false, awaits_step_ = false;
  Json curves_{{"steps", Json::array()}}, norms_{{"steps", Json::array()}};  // not written yet
  // Points of curves are means over this many steps, which doubles now and then.
  std::uint64_t steps_a_point_ = 1, points_ = 0, summed_ = 0;
  double loss_sum_ = 0, row_sum_ = 0;                 // of the steps since the last point
  double rate_now_ = 0;                               // the learning rate of this step
  std::map<std::string, std::vector<double>> paths_;  // of rows when they were written, by table
  Timer::Clock::time_point start_ = Timer::Clock::now(), last_flush_;
  Timer::Clock::duration cost_ = {};
  double seconds_before_ = 0, cost_before_ = 0;  // of processes before this one
};

}  // namespace rowgrad
