#include <algorithm>
#include <cmath>
#include <limits>

#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {
namespace {

// The columns of the history in a state, all of numbers. Of a text, there are tokens_per_second.
void for_each_column(const DataUnit& unit, const auto& column) {
  column("steps", &TrainingRecord::steps);
  column("epoch", &TrainingRecord::epoch);
  column("training_loss", &TrainingRecord::training_loss);
  column(concat(unit.name, "_per_second"), &TrainingRecord::speed);
  column("validation_loss", &TrainingRecord::validation_loss);
  column("training_accuracy", &TrainingRecord::training_accuracy);
  column("validation_accuracy", &TrainingRecord::validation_accuracy);
}

// What is not there is saved as NaN.
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
                 "TrainingRun: the history counts ", number);
  count = static_cast<std::size_t>(number);
}

Checkpoint saved(const std::vector<TrainingRecord>& history, const DataUnit& unit) {
  Checkpoint state;
  for_each_column(unit, [&](const std::string& name, const auto value) {
    std::vector<double> column;
    for (const TrainingRecord& record : history) column.push_back(number(record.*value));
    state.put(name, std::move(column));
  });
  return state;
}

std::vector<TrainingRecord> history_in(const Checkpoint& state, const DataUnit& unit) {
  std::vector<TrainingRecord> history(state.doubles("steps").size());
  for_each_column(unit, [&](const std::string& name, const auto value) {
    const std::vector<double> column = state.doubles(name);
    check_argument(column.size() == history.size(), "TrainingRun: the history has ", history.size(),
                   " records, but ", column.size(), " of ", name);
    for (std::size_t i = 0; i < column.size(); ++i) read(column[i], history[i].*value);
  });
  return history;
}

}  // namespace

void TrainingRun::check_can_save() const {
  check_state(phase_ != Phase::kFailed,
              "TrainingRun::state_dict: a step has failed and left the run between two steps; load "
              "the state that was saved last");
  check_state(phase_ != Phase::kUpdates,
              "TrainingRun::state_dict: a step is under way; save after it (after_step)");
  if (parts_.allow_not_finite) return;
  for (Parameter* parameter : parts_.optimizer.parameters()) {
    const Tensor* values = parameter->source().dense();
    if (parameter->trainable() && values != nullptr)
      check_runtime(kernels::all_finite({values->data(), values->size()}),
                    "TrainingRun::state_dict: ", parameter->name(), " is not finite after step ",
                    steps_, ", expected finite numbers. Try a smaller learning rate or clip_norm; ",
                    "with allow_not_finite, it is saved");
  }
}

Checkpoint TrainingRun::state_dict() const {
  check_can_save();
  Checkpoint state = progress();
  state.put("model", parts_.model.state_dict());
  state.put("optimizer", parts_.optimizer.state_dict());
  return state;
}

// All but the model and the optimizer, which are large, or in files.
Checkpoint TrainingRun::progress() const {
  Checkpoint state;
  if (parts_.schedule != nullptr) state.put("schedule", parts_.schedule->state_dict());
  state.put("loader", parts_.loader.state_dict());
  state.put("random", parts_.random.state_dict());
  state.put("history", saved(history_, unit_));
  state.put("steps", steps_);
  state.put("arithmetic", arithmetic());
  state.put("epoch_loss_sum", epoch_.loss_sum);
  state.put(concat("epoch_", unit_.name), epoch_.weight);
  return state;
}

void TrainingRun::load_state_dict(const Checkpoint& state) {
  check_argument(state.part("history").contains("epoch"),
                 "TrainingRun: the state is of version 0.2.0 or older, or of no run; its model and "
                 "optimizer may be loaded alone");
  check_argument(parts_.schedule != nullptr || state.part("schedule").empty(),
                 "TrainingRun: the state has a schedule, the run has none");
  const Checkpoint model = state.part("model"), optimizer = state.part("optimizer");
  const std::string arithmetic = state.text("arithmetic");
  loop_.reset();
  const Checkpoint before = progress();
  const auto epoch = epoch_;  // with its times, which no state has
  try {
    load_progress(state);
    check_progress(optimizer);
    parts_.model.load_state_dict(model, {.check_only = true});
    parts_.optimizer.check_state_dict(optimizer);
  } catch (...) {
    load_progress(before);
    epoch_ = epoch;
    throw;
  }
  phase_ = Phase::kFailed;  // until all is loaded
  parts_.model.load_state_dict(model);
  parts_.optimizer.load_state_dict(optimizer);
  loaded_arithmetic_ = arithmetic;
  last_step_ = kNoLimit;
  phase_ = Phase::kReady;
  stopped_ = false;
}

void TrainingRun::load_progress(const Checkpoint& state) {
  history_ = history_in(state.part("history"), unit_);
  steps_ = state.count("steps");
  epoch_ = {.loss_sum = state.number("epoch_loss_sum"),
            .weight = state.number(concat("epoch_", unit_.name))};
  parts_.loader.load_state_dict(state.part("loader"));
  parts_.random.load_state_dict(state.part("random"));
  if (parts_.schedule != nullptr) parts_.schedule->load_state_dict(state.part("schedule"));
}

// Checks all counts against each other, against the batches in an epoch, and those of an
// optimizer's state: how much work that takes depends on them.
void TrainingRun::check_progress(const Checkpoint& optimizer) const {
  const auto position = parts_.loader.position();
  const std::size_t batch = steps_ % steps_per_epoch() * parts_.accumulate;
  check_argument(
      epochs() == position.epoch || (epochs() + 1 == position.epoch && position.batch == 0),
      "TrainingRun: the history has ", epochs(), " epochs at batch ", position.batch, " of epoch ",
      position.epoch + 1);
  check_argument(steps_ / steps_per_epoch() == position.epoch && batch == position.batch,
                 "TrainingRun: step ", steps_, " is not batch ", position.batch, " of epoch ",
                 position.epoch + 1);
  check_argument(parts_.schedule == nullptr || parts_.schedule->step_count() == steps_,
                 "TrainingRun: the schedule is not at step ", steps_);
  const bool has_begun = epoch_is_due() || position.batch > 0;
  check_argument(std::isfinite(epoch_.weight) && epoch_.weight >= 0 &&
                     (epoch_.weight == 0 ? epoch_.loss_sum == 0 : has_begun),
                 "TrainingRun: the epoch has ", epoch_.weight, ' ', unit_.name,
                 " and a sum of losses of ", epoch_.loss_sum, " at batch ", position.batch);
  std::size_t epoch = 0;
  for (const TrainingRecord& record : history_) {
    check_argument(record.steps <= steps_, "TrainingRun: the history has a record of step ",
                   record.steps, ", the run ", steps_, " steps");
    if (!record.ends_epoch()) continue;
    check_argument(record.epoch == ++epoch && record.steps == epoch * steps_per_epoch(),
                   "TrainingRun: the history has ", record.steps, " steps after epoch ", epoch);
  }
  for (Parameter* parameter : parts_.optimizer.parameters()) {
    const std::string name = parameter->name() + ".step";
    const std::uint64_t steps = optimizer.contains(name) ? optimizer.count(name) : 0;
    check_argument(steps <= steps_, "TrainingRun: the optimizer's '", name, "' is ", steps,
                   ", more than the ", steps_, " steps of the run");
  }
}

}  // namespace rowgrad
