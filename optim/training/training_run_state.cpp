#include <algorithm>
#include <cmath>
#include <limits>

#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {
namespace {

// Adds the column of a value that may be missing, which is saved as NaN.
template <class Record>
void put_column(Checkpoint& state, const std::string& name, const std::vector<Record>& records,
                std::optional<double> Record::*value) {
  std::vector<double> column;
  for (const Record& record : records)
    column.push_back((record.*value).value_or(std::numeric_limits<double>::quiet_NaN()));
  state.put(name, std::move(column));
}

// The same for accuracies, which only some runs have.
template <class Record>
void put_accuracy(Checkpoint& state, const std::string& name, const std::vector<Record>& records,
                  std::optional<double> Record::*value) {
  if (std::ranges::any_of(records,
                          [&](const Record& record) { return (record.*value).has_value(); }))
    put_column(state, name, records, value);
}

// Reads such a column, if it is there.
template <class Record>
void read_column(const Checkpoint& state, const std::string& name, std::vector<Record>& records,
                 std::optional<double> Record::*value) {
  if (!state.contains(name)) return;
  const std::vector<double> column = state.doubles(name);
  check_argument(column.size() == records.size(), "TrainingRun: there are ", column.size(),
                 " values of ", name, ", expected ", records.size());
  for (std::size_t i = 0; i < column.size(); ++i)
    if (!std::isnan(column[i])) records[i].*value = column[i];
}

// The history or the evaluations, one array per column.
template <class Record>
Checkpoint saved(const std::vector<Record>& records) {
  std::vector<std::int64_t> steps;
  std::vector<double> training;
  for (const Record& record : records) {
    steps.push_back(static_cast<std::int64_t>(record.steps));
    training.push_back(record.training_loss);
  }
  Checkpoint state;
  state.put("steps", std::move(steps));
  state.put("training_loss", std::move(training));
  put_column(state, "validation_loss", records, &Record::validation_loss);
  put_accuracy(state, "validation_accuracy", records, &Record::validation_accuracy);
  return state;
}

template <class Record>
std::vector<Record> records_in(const Checkpoint& state, const char* what) {
  const auto steps = state.integers("steps");
  const auto training = state.doubles("training_loss");
  const auto validation = state.doubles("validation_loss");
  for (const auto* column : {&training, &validation})
    check_argument(column->size() == steps.size(), "TrainingRun: the ", what, " has ", steps.size(),
                   " steps, but ", column->size(), " losses");
  std::vector<Record> records(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    records[i].steps = static_cast<std::size_t>(steps[i]);
    records[i].training_loss = training[i];
    if (!std::isnan(validation[i])) records[i].validation_loss = validation[i];
  }
  read_column(state, "validation_accuracy", records, &Record::validation_accuracy);
  return records;
}

std::vector<EpochRecord> history_in(const Checkpoint& state) {
  auto history = records_in<EpochRecord>(state, "history");
  const auto speed = state.doubles("tokens_per_second");
  check_argument(speed.size() == history.size(), "TrainingRun: the history has ", history.size(),
                 " steps, but ", speed.size(), " speeds");
  for (std::size_t i = 0; i < history.size(); ++i) {
    history[i].epoch = i + 1;
    history[i].tokens_per_second = speed[i];
  }
  return history;
}

}  // namespace

Checkpoint TrainingRun::state_dict() const {
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
  Checkpoint history = saved(history_);
  std::vector<double> speed;
  for (const EpochRecord& record : history_) speed.push_back(record.tokens_per_second);
  history.put("tokens_per_second", std::move(speed));
  state.put("history", history);
  Checkpoint evaluations = saved(evaluations_);
  put_accuracy(evaluations, "training_accuracy", evaluations_, &Evaluation::training_accuracy);
  state.put("evaluations", evaluations);
  state.put("steps", steps_);
  state.put("arithmetic", arithmetic());
  state.put("epoch_loss_sum", epoch_.loss_sum);
  state.put("epoch_tokens", epoch_.weight);
  return state;
}

void TrainingRun::load_state_dict(const Checkpoint& state) {
  const Checkpoint model = state.part("model"), optimizer = state.part("optimizer");
  const std::string arithmetic = state.text("arithmetic");
  const Checkpoint before = progress();
  try {
    check_argument(parts_.schedule != nullptr || state.part("schedule").empty(),
                   "TrainingRun: the state has a schedule, the run has none");
    load_progress(state);
    check_progress(optimizer);
    parts_.model.load_state_dict(model, {.check_only = true});
    parts_.optimizer.check_state_dict(optimizer);
    parts_.model.load_state_dict(model);
    parts_.optimizer.load_state_dict(optimizer);
  } catch (...) {
    load_progress(before);
    throw;
  }
  loaded_arithmetic_ = arithmetic;
}

void TrainingRun::load_progress(const Checkpoint& state) {
  history_ = history_in(state.part("history"));
  const Checkpoint evaluations = state.part("evaluations");  // which older states do not have
  evaluations_ = evaluations.empty() ? std::vector<Evaluation>()
                                     : records_in<Evaluation>(evaluations, "evaluations");
  read_column(evaluations, "training_accuracy", evaluations_, &Evaluation::training_accuracy);
  steps_ = state.count("steps");
  epoch_ = {.loss_sum = state.number("epoch_loss_sum"), .weight = state.number("epoch_tokens")};
  parts_.loader.load_state_dict(state.part("loader"));
  parts_.random.load_state_dict(state.part("random"));
  if (parts_.schedule != nullptr) parts_.schedule->load_state_dict(state.part("schedule"));
}

// Checks all counts against each other, against the batches in an epoch, and those of an
// optimizer's state: how much work that takes depends on them.
void TrainingRun::check_progress(const Checkpoint& optimizer) const {
  const auto position = parts_.loader.position();
  const std::size_t batch = steps_ % steps_per_epoch() * parts_.accumulate;
  check_argument(history_.size() == position.epoch ||
                     (history_.size() + 1 == position.epoch && position.batch == 0),
                 "TrainingRun: the history has ", history_.size(), " epochs at batch ",
                 position.batch, " of epoch ", position.epoch + 1);
  check_argument(steps_ / steps_per_epoch() == position.epoch && batch == position.batch,
                 "TrainingRun: step ", steps_, " is not batch ", position.batch, " of epoch ",
                 position.epoch + 1);
  check_argument(parts_.schedule == nullptr || parts_.schedule->step_count() == steps_,
                 "TrainingRun: the schedule is not at step ", steps_);
  const bool begun = awaits_evaluation() || position.batch > 0;
  const bool may_have_none = parts_.loader.windows().has_own_targets() ||
                             parts_.loss.class_weights ||
                             parts_.loss.ignore_index.value_or(-1) >= 0;
  check_argument(std::isfinite(epoch_.weight) && epoch_.weight >= 0 &&
                     (begun ? epoch_.weight > 0 || may_have_none : epoch_.weight == 0),
                 "TrainingRun: the epoch has ", epoch_.weight, " tokens at batch ", position.batch);
  for (std::size_t i = 0; i < history_.size(); ++i)
    check_argument(history_[i].steps == (i + 1) * steps_per_epoch(),
                   "TrainingRun: the history has ", history_[i].steps, " steps after epoch ",
                   i + 1);
  for (Parameter* parameter : parts_.optimizer.parameters()) {
    const std::string name = parameter->name() + ".step";
    const std::uint64_t steps = optimizer.contains(name) ? optimizer.count(name) : 0;
    check_argument(steps <= steps_, "TrainingRun: the optimizer's '", name, "' is ", steps,
                   ", more than the ", steps_, " steps of the run");
  }
}

}  // namespace rowgrad
