#include <algorithm>
#include <cmath>
#include <limits>

#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {
namespace {

// Calls `column` with each column of the history. The name of the speed depends on the unit:
// tokens_per_second for text.
void for_each_column(const DataUnit& unit, const auto& column) {
  column("steps", &TrainingRecord::steps);
  column("epoch", &TrainingRecord::epoch);
  column("training_loss", &TrainingRecord::training_loss);
  column(concat(unit.name, "_per_second"), &TrainingRecord::speed);
  column("validation_loss", &TrainingRecord::validation_loss);
  column("training_accuracy", &TrainingRecord::training_accuracy);
  column("validation_accuracy", &TrainingRecord::validation_accuracy);
}

// Missing values are saved as NaN.
double number(std::size_t count) { return static_cast<double>(count); }
double number(double value) { return value; }
double number(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}
void read(double number, double& value) { value = number; }
void read(double number, std::optional<double>& value) {
  if (!std::isnan(number)) value = number;
}
void read(double number, std::size_t& count) {
  check_argument(number >= 0 && number < 0x1p53 && number == std::floor(number),
                 "TrainingRun: the history has a count of ", number,
                 ", expected a whole number >= 0");
  count = static_cast<std::size_t>(number);
}

StateDict saved(const std::vector<TrainingRecord>& history, const DataUnit& unit) {
  StateDict state;
  for_each_column(unit, [&](const std::string& name, const auto value) {
    std::vector<double> column;
    for (const TrainingRecord& record : history) column.push_back(number(record.*value));
    state.put(name, std::move(column));
  });
  return state;
}

std::vector<TrainingRecord> history_in(const StateDict& state, const DataUnit& unit) {
  std::vector<TrainingRecord> history(state.doubles("steps").size());
  for_each_column(unit, [&](const std::string& name, const auto value) {
    const std::vector<double> column = state.doubles(name);
    check_argument(column.size() == history.size(), "TrainingRun: the history has ", history.size(),
                   " records, but ", column.size(), " values of ", name,
                   "; expected one for each record");
    for (std::size_t i = 0; i < column.size(); ++i) read(column[i], history[i].*value);
  });
  return history;
}

}  // namespace

void TrainingRun::check_can_save() const {
  check_state(phase_ != Phase::kFailed,
              "TrainingRun::state_dict: a step failed before its end, so the run cannot be saved; "
              "load the last saved state");
  check_state(
      phase_ != Phase::kUpdates,
      "TrainingRun::state_dict: called during a step, expected a call after it (after_step)");
  check_parameters();
}

StateDict TrainingRun::state_dict() const {
  check_can_save();
  StateDict state = own_state();
  state.put("model", options_.model.state_dict());
  state.put("optimizer", options_.optimizer.state_dict());
  return state;
}

// Returns the state without the model and the optimizer, which are large or in files.
StateDict TrainingRun::own_state() const {
  StateDict state;
  if (options_.schedule != nullptr) state.put("schedule", options_.schedule->state_dict());
  state.put("progress", options_.loader.state_dict(progress_));
  state.put("steps", steps());
  state.put("random", options_.random.state_dict());
  state.put("history", saved(history_, unit_));
  state.put("arithmetic", arithmetic());
  state.put("epoch_loss_sum", epoch_.loss_sum);
  state.put(concat("epoch_", unit_.name), epoch_.weight);
  return state;
}

void TrainingRun::load_state_dict(const StateDict& state) {
  check_argument(state.contains("progress.epoch"),
                 "TrainingRun: not the state of a run, or saved by an older version; its model and "
                 "optimizer can be loaded separately");
  check_argument(options_.schedule != nullptr || state.part("schedule").empty(),
                 "TrainingRun: the state has a schedule, but the run has none");
  const StateDict model = state.part("model"), optimizer = state.part("optimizer");
  const std::string arithmetic = state.string("arithmetic");
  const StateDict before = own_state();
  const auto epoch = epoch_;  // includes times, which are not in states
  data_.reset();
  prefetched_.clear();
  try {
    load_own_state(state);
    check_counts(optimizer);
    options_.model.load_state_dict(model, {.dry_run = true});
    options_.optimizer.check_state_dict(optimizer);
  } catch (...) {
    load_own_state(before);
    epoch_ = epoch;
    throw;
  }
  phase_ = Phase::kFailed;  // until all is loaded
  options_.model.load_state_dict(model);
  options_.optimizer.load_state_dict(optimizer);
  loaded_arithmetic_ = arithmetic;
  phase_ = Phase::kReady;
  stopped_ = false;
}

void TrainingRun::load_own_state(const StateDict& state) {
  history_ = history_in(state.part("history"), unit_);
  epoch_ = {.loss_sum = state.number("epoch_loss_sum"),
            .weight = state.number(concat("epoch_", unit_.name))};
  progress_ = options_.loader.progress(state.part("progress"));
  check_argument(state.count("steps") == steps(), "TrainingRun: the state has ",
                 state.count("steps"), " steps, expected ", steps(),
                 " for its epoch and batch with accumulate ", options_.accumulate);
  options_.random.load_state_dict(state.part("random"));
  if (options_.schedule != nullptr) options_.schedule->load_state_dict(state.part("schedule"));
}

// Checks the step counts of the other components against the progress of the run.
void TrainingRun::check_counts(const StateDict& optimizer) const {
  const std::size_t epoch = progress_.epoch, batch = progress_.batch;
  const auto check_steps = [&](const std::string& what, std::uint64_t steps) {
    check_argument(steps <= this->steps(), "TrainingRun: ", what, " is ", steps,
                   ", but the run has made ", this->steps(), " steps");
  };
  check_argument(batch % options_.accumulate == 0 && batch < options_.loader.batches(),
                 "TrainingRun: the state is at batch ", batch,
                 ", expected the first batch of a step");
  std::size_t ended = 0;
  for (const TrainingRecord& record : history_) {
    check_steps("a step of the history", record.steps);
    if (!record.ends_epoch()) continue;
    ++ended;
    check_argument(record.epoch == ended && record.steps == ended * steps_per_epoch(),
                   "TrainingRun: the history has epoch ", record.epoch, " at step ", record.steps,
                   ", expected epoch ", ended, " at step ", ended * steps_per_epoch());
  }
  check_argument(ended == epoch || (ended + 1 == epoch && batch == 0),
                 "TrainingRun: the history has ", ended, " epochs, expected ", epoch, " at batch ",
                 batch, " of epoch ", epoch + 1);
  check_argument(std::isfinite(epoch_.weight) && epoch_.weight >= 0 &&
                     (epoch_.weight > 0 || epoch_.loss_sum == 0),
                 "TrainingRun: the epoch has a weight of ", epoch_.weight, " and a loss sum of ",
                 epoch_.loss_sum,
                 ", expected a finite weight >= 0, and a loss sum of 0 if the weight is 0");
  if (options_.schedule != nullptr)
    check_argument(options_.schedule->step_count() == steps(),
                   "TrainingRun: the schedule is at step ", options_.schedule->step_count(),
                   ", expected ", steps());
  for (Parameter* parameter : options_.optimizer.parameters())
    if (const std::string name = parameter->name() + ".step"; optimizer.contains(name))
      check_steps(concat("the optimizer's '", name, '\''), optimizer.count(name));
}

}  // namespace rowgrad
