#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <utility>

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/parallel/sharded_table.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>
#include <rowgrad/optim/training/training_run.hpp>
#include <rowgrad/optim/update_rule.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr const char* kAdvice =
    ". Try a lower learning rate or clip_norm, check the data, or set allow_non_finite";

bool is_in_file(Parameter* parameter) { return !parameter->is_in_memory(); }

std::uint64_t checksum_of(const Tensor& values) {
  Checksum sum;
  sum.add_bytes(std::as_bytes(std::span(values.data(), values.size())));
  return sum.value();
}

}  // namespace

TrainingRun::TrainingRun(const TrainingRunOptions& options)
    : options_(options),
      unit_(options.loader.dataset()->unit()),
      group_(options.ranks != nullptr ? options.ranks->group() : alone_),
      gradients_(options_, group_) {
  for (const auto& [name, layer] : options_.model.named_layers<EmbeddingTable>()) {
    check_argument(group_.size() == 1 || !layer->lookup().max_norm,
                   "TrainingRun: ", layer->weight.name(), " has max_norm, and each of ",
                   group_.size(),
                   " ranks would scale different rows; expected a sharded table "
                   "(EmbeddingOptions::tables)");
    check_argument(&layer->table() == &layer->weight ||
                       (has_sharded_tables() && options_.ranks->find(layer->weight) != nullptr),
                   "TrainingRun: ", layer->weight.name(),
                   " is a sharded table, expected its ParallelTraining as "
                   "TrainingRunOptions::ranks");
  }
  check_argument(options_.schedule == nullptr || options_.schedule->step_count() == 0,
                 "TrainingRun: the schedule has made steps, expected a new one");
  check_argument(
      options_.schedule == nullptr || &options_.schedule->optimizer() == &options_.optimizer,
      "TrainingRun: the schedule belongs to another optimizer, expected the run's");
  check_argument(
      options_.schedule == nullptr || !options_.schedule->observes() || options_.validation,
      "TrainingRun: the schedule has PlateauOptions, but validation is null; expected a loader");
  for (const DataLoader* loader : {&options_.loader, options_.validation,
                                   options_.evaluation.training, options_.evaluation.validation})
    check_argument(loader == nullptr || loader->batches() > 0,
                   "TrainingRun: a loader has no batches, expected at least 1 (see drop_last)");
  check_argument(unit_.per_example > 0, "TrainingRun: an example of the data has 0 ", unit_.name,
                 ", expected at least 1");
  check_option("TrainingRun", "clip_norm", options_.clip_norm);
  check_argument(options_.slices > 0, "TrainingRun: slices is 0, expected at least 1");
  check_argument(options_.accumulate > 0, "TrainingRun: accumulate is 0, expected at least 1");
  check_argument(options_.compare_every > 0,
                 "TrainingRun: compare_every is 0, expected at least 1");
  check_argument(options_.evaluation.every == 0 || options_.evaluation.training != nullptr,
                 "TrainingRun: evaluation.every is ", options_.evaluation.every,
                 ", but evaluation.training is null; expected a loader");
}

std::size_t TrainingRun::steps() const {
  return progress_.epoch * steps_per_epoch() + progress_.batch / options_.accumulate;
}

std::size_t TrainingRun::steps_per_epoch() const {
  const std::size_t batches = options_.loader.batches();
  return batches / options_.accumulate + (batches % options_.accumulate > 0);
}

std::size_t TrainingRun::total_steps() const {
  if (options_.steps > 0) return options_.steps;
  return options_.epochs > kNoLimit / steps_per_epoch() ? kNoLimit
                                                        : options_.epochs * steps_per_epoch();
}

void TrainingRun::set_length(std::size_t epochs, std::size_t steps) {
  options_.epochs = epochs;
  options_.steps = steps;
}

std::size_t TrainingRun::epochs() const {
  const auto last = std::find_if(history_.rbegin(), history_.rend(),
                                 [](const TrainingRecord& record) { return record.ends_epoch(); });
  return last == history_.rend() ? 0 : last->epoch;
}

bool TrainingRun::has_ended() const {
  if (is_due()) return false;
  return options_.steps > 0 ? steps_left() == 0 : epochs() >= options_.epochs;
}

std::string TrainingRun::arithmetic() {
  return concat("rowgrad ", ROWGRAD_VERSION, ", ",
                sizeof(real) == sizeof(float) ? "float, " : "double, ", blas::describe());
}

// --- The loop -----------------------------------------------------------------------------------

bool TrainingRun::train(std::size_t last_step) {
  check_argument(std::min(total_steps(), last_step) < kNoLimit,
                 "TrainingRun::train: the run has no length, expected steps, epochs or last_step");
  check_can_step();
  const struct Reset {
    ~Reset() {
      run.last_step_ = kNoLimit;
      run.stopped_ = false;
    }
    TrainingRun& run;
  } reset{*this};
  last_step_ = last_step;
  stopped_ = false;
  in_phase(Phase::kReports, [&] { should_continue(); });
  while (!stopped_ && (steps() < last_step_ || is_due()) && step()) continue;
  in_phase(Phase::kReports,
           [&] { each([&](TrainingCallback& callback) { callback.at_end(*this); }); });
  return has_ended();
}

bool TrainingRun::run_epoch() {
  const std::size_t before = epochs();
  train((before + 1) * steps_per_epoch());
  return epochs() > before;
}

bool TrainingRun::step() {
  check_can_step();
  if (has_ended() || std::exchange(stopped_, false)) return false;
  StepResult result;
  const std::size_t before = history_.size();
  if (!is_due()) in_phase(Phase::kUpdates, [&] { result.loss = make_step(); });
  in_phase(Phase::kReports, [&] {
    if (result.loss) should_continue();
    add_due_records();
    if (!has_more_steps()) check_parameters();
    result.records = std::span(history_).subspan(before);
    if (result.loss || !result.records.empty())
      each([&](TrainingCallback& callback) { callback.after_step(*this, result); });
  });
  return true;
}

void TrainingRun::check_can_step() const {
  check_state(phase_ != Phase::kFailed && phase_ != Phase::kReportsFailed,
              "TrainingRun: the run has failed; load the last saved state");
  check_state(phase_ == Phase::kReady,
              "TrainingRun: step() was called during a step, expected a call between steps");
}

// Calls `body` in this phase of the run, and then makes the run ready again. If `body` throws, the
// run has failed.
void TrainingRun::in_phase(Phase phase, const auto& body) {
  phase_ = phase;
  try {
    body();
  } catch (...) {
    phase_ = phase == Phase::kReports ? Phase::kReportsFailed : Phase::kFailed;
    throw;
  }
  phase_ = Phase::kReady;
}

void TrainingRun::each(const std::function<void(TrainingCallback&)>& call) const {
  if (!has_sharded_tables()) {
    for (TrainingCallback* callback : callbacks_) call(*callback);
    return;
  }
  options_.ranks->first_asks([&] {
    for (TrainingCallback* callback : callbacks_)
      if (callback->needs().all_ranks)
        options_.ranks->together([&] { call(*callback); });
      else
        call(*callback);
  });
}

// Returns false if a callback on any rank stops the run.
bool TrainingRun::should_continue() {
  if (stopped_) return false;
  for (TrainingCallback* callback : callbacks_) stopped_ |= !callback->should_continue(*this);
  if (group_.size() > 1) stopped_ = group_.any(stopped_);
  return !stopped_;
}

// Makes a step and returns its loss.
double TrainingRun::make_step() {
  auto start = std::chrono::steady_clock::now();
  if (options_.schedule != nullptr) options_.schedule->check_step();
  options_.optimizer.zero_grad();
  if (has_sharded_tables()) options_.ranks->zero_gradients();
  const std::size_t first = progress_.batch, all = options_.loader.batches();
  if (first == 0) {
    progress_ = options_.loader.start(progress_.epoch, options_.random);
    data_.reset();
    epoch_ = {};
  }
  if (!data_) data_ = options_.loader.epoch(progress_);
  const std::size_t count = std::min(options_.accumulate, all - first);
  const auto needs_gradients = [](const auto* callback) { return callback->needs().gradients; };
  const bool watched =
      has_sharded_tables() && group_.any(std::ranges::any_of(callbacks_, needs_gradients));
  const StepGradients::Loss loss =
      gradients_.add(read_slices(count), watched, [&](const Tape& tape) {
        for (TrainingCallback* callback : callbacks_) callback->after_backward(*this, tape);
      });
  epoch_.loss_sum += loss.mean * loss.weight;
  epoch_.weight += loss.weight;
  for (std::size_t i = 0; i < count; ++i)
    epoch_.units += options_.loader.rows(first + i) * unit_.per_example;
  if (steps() == 0 && !options_.allow_unused && epoch_.weight > 0)
    options_.optimizer.check_uses_all();
  check_finite(loss.mean);
  epoch_.seconds += seconds_since(start);
  each([&](TrainingCallback& callback) { callback.before_update(*this); });
  start = std::chrono::steady_clock::now();
  if (next_clip_norm() > 0) {
    ClipNormOptions options;
    if (has_sharded_tables())
      options.all_parts = [&](const Parameter& parameter, std::vector<double> parts) {
        return options_.ranks->all_parts(parameter, std::move(parts));
      };
    clip_grad_norm(options_.optimizer.parameters(), next_clip_norm(), options);
  }
  options_.optimizer.step();
  if (options_.schedule != nullptr) options_.schedule->step();
  epoch_.seconds += seconds_since(start);
  ++epoch_.steps;
  progress_.batch += count;
  if (progress_.batch == all) {
    progress_ = {.epoch = progress_.epoch + 1};
    data_.reset();
  }
  if (steps() == 1 || steps() % options_.compare_every == 0) compare_ranks();
  return loss.mean;
}

// Returns a message that names the optimizer's first parameter with a value (kParameters) or a
// gradient (kGradients) that is not finite, and the row of a row gradient. Returns "" if all are
// finite. All ranks return the same string.
std::string TrainingRun::first_not_finite(Values values) const {
  constexpr std::uint64_t kAllRows = ~std::uint64_t{0};
  const std::vector<Parameter*>& parameters = options_.optimizer.parameters();
  std::array<std::uint64_t, 2> first{parameters.size(), kAllRows};  // parameter and row
  for (std::size_t p = 0; p < parameters.size() && first[0] == parameters.size(); ++p) {
    const Gradient& gradient = parameters[p]->gradient();
    if (values == Values::kParameters) {
      const Tensor* const dense = parameters[p]->source().dense();
      if (parameters[p]->trainable() && dense != nullptr &&
          !kernels::all_finite({dense->data(), dense->size()}))
        first = {p, kAllRows};
    } else if (!kernels::all_finite(gradient.values())) {
      first = {p, kAllRows};
      if (!gradient.is_rows()) continue;
      const RowGradient& rows = gradient.rows();
      std::size_t i = 0;
      while (kernels::all_finite(rows.row(i))) ++i;
      const ShardedTable* const table =
          options_.ranks != nullptr ? options_.ranks->find(*parameters[p]) : nullptr;
      first[1] = (table != nullptr ? table->first_row() : 0) +
                 static_cast<std::uint64_t>(rows.indices()[i]);
    }
  }
  if (has_sharded_tables()) {
    const std::vector<std::uint64_t> all = group_.all_gather(std::span<const std::uint64_t>(first));
    for (std::size_t i = 0; i < all.size(); i += 2) first = std::min(first, {all[i], all[i + 1]});
  }
  if (first[0] == parameters.size()) return "";
  const std::string row = first[1] == kAllRows ? "" : concat(" in row ", first[1]);
  return concat(values == Values::kGradients ? "the gradient of " : "",
                parameters[first[0]]->name(), " is not finite", row);
}

// Throws if the loss or a gradient of a step is not finite, before the update.
void TrainingRun::check_finite(double loss) const {
  if (options_.allow_non_finite) return;
  std::string what, bad;
  if (!std::isfinite(loss)) {
    what = concat("the loss became ", std::abs(loss));  // NaN may have a sign
    bad = first_not_finite(Values::kParameters);
  }
  if (bad.empty()) bad = first_not_finite(Values::kGradients);
  if (!bad.empty()) what += (what.empty() ? "" : " and ") + bad;
  check_runtime(what.empty(), "TrainingRun: ", what, " at step ", steps() + 1,
                ", expected finite values (no update was made)", kAdvice);
}

std::vector<TableLookup> TrainingRun::lookups_of(std::span<const Batch> batches) const {
  std::vector<TableLookup> all;
  for (const Batch& batch : batches)
    for (TableLookup& lookup : options_.model.lookups(batch)) all.push_back(std::move(lookup));
  return all;
}

// Reads this rank's slices of the next `count` batches, batch by batch.
std::vector<Batch> TrainingRun::read_slices(std::size_t count) {
  std::vector<Batch> slices = std::exchange(prefetched_, {});
  const IndexRange own = gradients_.own_slices();
  const auto read = [&](std::size_t batch, std::vector<Batch>& to) {
    for (std::size_t slice = own.begin; slice < own.end; ++slice)
      to.push_back(data_->read(batch, {.index = slice, .count = options_.slices}));
  };
  const std::size_t first = progress_.batch, end = first + count;
  for (std::size_t batch = first + !slices.empty(); batch < end; ++batch) read(batch, slices);
  if (group_.size() > 1 && has_sharded_tables()) {
    options_.ranks->fetch(lookups_of(slices));
  } else if (std::ranges::any_of(options_.optimizer.parameters(), is_in_file)) {
    if (end < options_.loader.batches()) read(end, prefetched_);
    for (const std::span<const Batch> batches :
         {std::span(slices).subspan(own.size()), std::span(prefetched_)})
      for (const TableLookup& lookup : lookups_of(batches)) lookup.table->prefetch(lookup.ids);
  }
  return slices;
}

// --- Records ------------------------------------------------------------------------------------

// Returns true if the evaluation after the last step is missing.
bool TrainingRun::evaluation_is_due() const {
  const std::size_t every = options_.evaluation.every;
  return steps() > 0 && every > 0 && (steps() - 1) % every == 0 &&
         (history_.empty() || history_.back().steps < steps());
}

void TrainingRun::check_finite(const TrainingRecord& record) const {
  const auto check = [&](const char* data, double loss) {
    check_runtime(options_.allow_non_finite || std::isfinite(loss), "TrainingRun: the ", data,
                  " loss became ", std::abs(loss), " after step ", record.steps,
                  ", expected a finite value", kAdvice);
  };
  check("training", record.training_loss);
  if (record.validation_loss) check("validation", *record.validation_loss);
}

// Checks the parameters after the last step, whose update may not be finite even if its gradients
// are finite. After other steps, the next loss usually reveals parameters that are not finite.
void TrainingRun::check_parameters() const {
  if (options_.allow_non_finite) return;
  const std::string bad = first_not_finite(Values::kParameters);
  check_runtime(bad.empty(), "TrainingRun: ", bad, " after step ", steps(),
                ", expected finite values", kAdvice);
}

// Adds the records that are due. If a callback stops the run, the remaining records stay due. A
// later call computes them from the same examples.
void TrainingRun::add_due_records() {
  const PeriodicEvaluation& evaluation = options_.evaluation;
  while (is_due()) {
    const bool ends_epoch = !evaluation_is_due();
    TrainingRecord record{.steps = steps(), .speed = speed()};
    if (ends_epoch) {
      record.epoch = epochs() + 1;
      check_argument(epoch_.weight > 0, "TrainingRun: all targets of epoch ", record.epoch,
                     " have weight 0, expected at least one with nonzero weight");
      record.training_loss = epoch_.loss_sum / epoch_.weight;
      compare_ranks();
    }
    Random random = options_.random;
    if (!add_losses(record, ends_epoch ? nullptr : evaluation.training,
                    ends_epoch ? options_.validation : evaluation.validation, evaluation.batches,
                    random))
      return;
    check_finite(record);
    options_.random = random;
    history_.push_back(record);
    if (!ends_epoch) continue;
    epoch_.loss_sum = epoch_.weight = 0;
    if (options_.schedule != nullptr && options_.schedule->observes())
      options_.schedule->observe(*record.validation_loss);
  }
}

std::optional<TrainingRecord> TrainingRun::evaluate(const DataLoader& training,
                                                    const DataLoader* validation,
                                                    std::size_t batches) {
  TrainingRecord record{.steps = steps(), .speed = speed()};
  const bool whole = add_losses(record, &training, validation, batches, options_.random);
  return whole ? std::optional(record) : std::nullopt;
}

// Adds the losses of the loaders that are not null. Returns false if a callback stops the run.
bool TrainingRun::add_losses(TrainingRecord& record, const DataLoader* training,
                             const DataLoader* validation, std::size_t batches, Random& random) {
  const auto add = [&](const DataLoader* loader, auto& loss, std::optional<double>& accuracy) {
    if (loader == nullptr) return true;
    if (stopped_) return false;
    const auto found = rowgrad::evaluate(options_.model, *loader,
                                         {.batches = batches,
                                          .accuracy = options_.evaluation.accuracy,
                                          .random = &random,
                                          .after_batch = [&] { return should_continue(); },
                                          .ranks = &group_,
                                          .tables = tables()});
    if (!found) return false;
    loss = found->loss;
    accuracy = found->accuracy;
    return true;
  };
  return add(training, record.training_loss, record.training_accuracy) &&
         add(validation, record.validation_loss, record.validation_accuracy);
}

void TrainingRun::compare_ranks() const {
  if (group_.size() == 1) return;
  std::vector<std::uint64_t> sums;
  for (Parameter* parameter : options_.optimizer.parameters()) {
    // Only the last updated rows of a table file are compared. Shards are not compared, because
    // each exists only once.
    const Gradient& last = parameter->gradient();
    sums.push_back(checksum_of(has_sharded_tables() && options_.ranks->find(*parameter) ? Tensor()
                               : parameter->is_in_memory() ? parameter->copy()
                               : last.is_rows()            ? parameter->rows(last.rows().indices())
                                                           : Tensor()));
  }
  const std::vector<std::uint64_t> all = group_.all_gather(std::span<const std::uint64_t>(sums));
  for (std::size_t i = 0; i < all.size(); ++i)
    check_runtime(all[i] == all[i % sums.size()], "TrainingRun: after step ", steps(), ", ",
                  options_.optimizer.parameters()[i % sums.size()]->name(), " differs between ",
                  group_.name_of(0), " and ", group_.name_of(i / sums.size()),
                  ", expected equal parameters on all ranks");
}

double TrainingRun::speed() const {
  return epoch_.seconds > 0 ? static_cast<double>(epoch_.units) / epoch_.seconds : 0;
}

double TrainingRun::seconds_left() const {
  const auto left =
      static_cast<double>(std::max(std::min(total_steps(), last_step_), steps()) - steps());
  return epoch_.steps > 0 ? left * epoch_.seconds / static_cast<double>(epoch_.steps) : 0;
}

}  // namespace rowgrad
