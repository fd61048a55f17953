#include <algorithm>
#include <chrono>

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>
#include <rowgrad/optim/training/training_run.hpp>
#include <rowgrad/optim/update_rule.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool is_in_file(Parameter* parameter) { return !parameter->stored().allows_passes(); }

std::uint64_t checksum_of(const Tensor& values) {
  Checksum sum;
  sum.add_words(std::as_bytes(std::span(values.data(), values.size())));
  return sum.value();
}

}  // namespace

TrainingRun::TrainingRun(const TrainingParts& parts)
    : parts_(parts),
      ranks_(parts.ranks != nullptr ? *parts.ranks : alone_),
      gradients_(parts_, ranks_) {
  check_argument(parts_.loader.position() == DataLoader::Position(),
                 "TrainingRun: the loader is at batch ", parts_.loader.position().batch,
                 " of epoch ", parts_.loader.position().epoch, ", expected its beginning");
  check_argument(parts_.loader.shard() == BatchShard(),
                 "TrainingRun: the loader has a shard, expected whole batches");
  check_argument(parts_.schedule == nullptr || parts_.schedule->step_count() == 0,
                 "TrainingRun: the schedule is not at step 0");
  check_option("TrainingRun", "clip_norm", parts_.clip_norm);
  check_argument(parts_.accumulate > 0, "TrainingRun: accumulate is 0, expected at least 1");
  check_argument(parts_.loss.reduction == LossReduction::kMean && !parts_.loss.target_weights,
                 "TrainingRun: the loss is a mean, without weights of the targets of one batch");
  check_argument(parts_.compare_every > 0, "TrainingRun: compare_every is 0, expected at least 1");
  check_argument(parts_.evaluation.every == 0 || parts_.evaluation.training != nullptr,
                 "TrainingRun: there is no loader for the evaluation every ",
                 parts_.evaluation.every, " steps");
}

std::size_t TrainingRun::steps_per_epoch() const {
  const std::size_t batches = parts_.loader.size();
  return batches / parts_.accumulate + (batches % parts_.accumulate > 0);
}

std::size_t TrainingRun::steps_in_all() const {
  if (parts_.steps > 0) return parts_.steps;
  return parts_.epochs > kNoLimit / steps_per_epoch() ? kNoLimit
                                                      : parts_.epochs * steps_per_epoch();
}

void TrainingRun::set_length(std::size_t epochs, std::size_t steps) {
  parts_.epochs = epochs;
  parts_.steps = steps;
}

std::size_t TrainingRun::tokens_left(std::size_t last_step) const {
  const std::size_t context = parts_.loader.windows().context();
  const std::size_t a_batch = parts_.loader.rows(0) * context;
  const std::size_t an_epoch =
      std::min(parts_.loader.windows().size() * context, parts_.loader.size() * a_batch);
  // Only the last step of an epoch may have fewer tokens than the others.
  const auto tokens = [&](std::size_t steps) {
    const std::size_t whole = steps / steps_per_epoch();
    const std::size_t more = steps % steps_per_epoch();
    if (whole >= kNoLimit / an_epoch) return kNoLimit;
    return whole * an_epoch + std::min(more * parts_.accumulate * a_batch, an_epoch);
  };
  const std::size_t all = tokens(std::max(std::min(steps_in_all(), last_step), steps_));
  return all == kNoLimit ? all : all - tokens(steps_);
}

bool TrainingRun::has_ended() const {
  if (awaits_evaluation() || evaluation_is_due()) return false;
  return parts_.steps > 0 ? steps_left() == 0 : history_.size() >= parts_.epochs;
}

std::string TrainingRun::arithmetic() {
  return concat("rowgrad ", ROWGRAD_VERSION, ", ", sizeof(real), " bytes a number, ",
                blas::describe());
}

// --- The loop -----------------------------------------------------------------------------------

// Calls the observers that this rank has to call.
void TrainingRun::each(const auto& call) const {
  for (RunObserver* observer : observers_)
    if (is_first_rank() || !observer->is_for_first_rank()) call(*observer);
}

// Whether no observer on any rank stops the run.
bool TrainingRun::goes_on() {
  if (stopped_) return false;
  each([&](RunObserver& observer) { stopped_ |= !observer.goes_on(*this); });
  if (ranks_.size() > 1) stopped_ = ranks_.any(stopped_);
  return !stopped_;
}

bool TrainingRun::train(std::size_t last_step) {
  check_argument(std::min(steps_in_all(), last_step) < kNoLimit,
                 "TrainingRun: train() would never end, as neither epochs nor steps are given, nor "
                 "a last step");
  train_until(last_step, kNoLimit);
  return has_ended();
}

bool TrainingRun::run_epoch() {
  const std::size_t before = history_.size();
  train_until(kNoLimit, before + 1);
  return history_.size() > before;
}

void TrainingRun::train_until(std::size_t last_step, std::size_t last_epoch) {
  const auto ends = [&] { return has_ended() || stops() || history_.size() >= last_epoch; };
  last_step_ = last_step;
  stopped_ = false;
  goes_on();
  each([&](RunObserver& observer) { observer.at_begin(*this); });
  if (steps_ > 0 && !stopped_) make_evaluation();  // in which the run before this one was stopped
  if (steps_ > 0 && !stops()) each([&](RunObserver& observer) { observer.between_steps(*this); });
  while (!ends()) {
    if (!awaits_evaluation()) make_steps();
    if (awaits_evaluation()) finish_epoch();
  }
  each([&](RunObserver& observer) { observer.at_end(*this); });
  last_step_ = kNoLimit;
}

void TrainingRun::make_steps() {
  parts_.loader.continue_epoch();
  bool reads_batches = false;
  each([&](const RunObserver& observer) { reads_batches |= observer.reads_batches(); });
  const struct Shard {
    DataLoader& loader;
    ~Shard() { loader.set_shard({}); }  // even if something throws
  } shard{parts_.loader};
  parts_.loader.set_shard(reads_batches ? BatchShard() : gradients_.shard());
  Random before = parts_.random;
  for (auto batches = parts_.loader.begin(); batches != parts_.loader.end(); ++batches) {
    const double loss = try_step(batches, before);
    if (steps_ == 1 || steps_ % parts_.compare_every == 0) compare_ranks();
    goes_on();
    each([&](RunObserver& observer) { observer.after_step(*this, loss); });
    make_evaluation();
    each([&](RunObserver& observer) { observer.between_steps(*this); });
    if (!makes_more_steps()) return;
    before = parts_.random;
  }
}

// Whether the last step has an evaluation that was not made yet.
bool TrainingRun::evaluation_is_due() const {
  const std::size_t every = parts_.evaluation.every;
  const bool known = !evaluations_.empty() && evaluations_.back().steps == steps_;
  return steps_ > 0 && every > 0 && (steps_ - 1) % every == 0 && !known;
}

void TrainingRun::make_evaluation() {
  if (!evaluation_is_due()) return;
  const EvaluationParts& evaluation = parts_.evaluation;
  const Random before = parts_.random;
  const auto losses = evaluate(*evaluation.training, evaluation.validation, evaluation.batches);
  if (!losses) {
    parts_.random = before;
    return;
  }
  evaluations_.push_back(*losses);
  each([&](RunObserver& observer) { observer.after_evaluation(*this, *losses); });
}

std::optional<Evaluation> TrainingRun::evaluate(DataLoader& training, DataLoader* validation,
                                                std::size_t batches) {
  const auto of_training = score(training, batches);
  if (!of_training) return std::nullopt;
  Evaluation evaluation{.steps = steps_,
                        .training_loss = of_training->loss,
                        .training_accuracy = of_training->accuracy};
  if (validation == nullptr) return evaluation;
  const auto of_validation = score(*validation, batches);
  if (!of_validation) return std::nullopt;
  evaluation.validation_loss = of_validation->loss;
  evaluation.validation_accuracy = of_validation->accuracy;
  return evaluation;
}

std::optional<Score> TrainingRun::score(DataLoader& loader, std::size_t batches) {
  loader.rewind();  // each evaluation takes the same windows in the same order
  return rowgrad::evaluate(parts_.model, loader,
                           {.batches = batches,
                            .accuracy = parts_.evaluation.accuracy,
                            .loss = parts_.loss,
                            .after_batch = [&] { return goes_on(); },
                            .ranks = parts_.ranks});
}

// Takes back what a step that fails has done to the loader and the random numbers.
double TrainingRun::try_step(DataLoader::Iterator& batches, const Random& before) {
  try {
    return step(batches);
  } catch (...) {
    Checkpoint state = parts_.loader.state_dict();
    state.erase("epoch");
    state.erase("batch");
    state.put("epoch", steps_ / steps_per_epoch());
    state.put("batch", steps_ % steps_per_epoch() * parts_.accumulate);
    parts_.loader.load_state_dict(state);
    parts_.random = before;
    throw;
  }
}

double TrainingRun::step(DataLoader::Iterator& batches) {
  const auto start = std::chrono::steady_clock::now();
  Optimizer& optimizer = parts_.optimizer;
  optimizer.zero_grad();
  const std::size_t first = steps_ % steps_per_epoch() * parts_.accumulate;
  const std::size_t count = std::min(parts_.accumulate, parts_.loader.size() - first);
  std::vector<Batch> copies;  // of several, as the loader has only one at a time
  for (std::size_t i = 0; count > 1 && i < count; ++i) {
    if (i > 0) ++batches;
    copies.push_back(*batches);
  }
  const std::span<const Batch> of_step =
      count > 1 ? std::span<const Batch>(copies) : std::span<const Batch>(&*batches, 1);
  if (std::ranges::any_of(optimizer.parameters(), is_in_file)) {
    for (std::size_t i = 1; i < count; ++i) parts_.model.read_ahead(of_step[i].inputs);
    parts_.model.read_ahead(batches.next_inputs());
  }
  const StepGradients::Losses losses = gradients_.add(of_step, first, [&](const Tape& tape) {
    each([&](RunObserver& observer) { observer.after_backward(*this, tape); });
  });
  Epoch epoch = epoch_;
  for (std::size_t i = 0; i < count; ++i) {
    epoch.loss_sum += losses.means[i] * losses.weights[i];
    epoch.weight += losses.weights[i];
    epoch.timed_tokens += parts_.loader.rows(first + i) * parts_.loader.windows().context();
    each([&](RunObserver& observer) { observer.on_batch(*this, of_step[i]); });
  }
  if (steps_ == 0 && !parts_.allow_unused && epoch.weight > 0) optimizer.check_uses_all();
  each([&](RunObserver& observer) { observer.before_update(*this); });
  if (next_clip_norm() > 0) clip_grad_norm(optimizer.parameters(), next_clip_norm());
  if (parts_.schedule != nullptr) parts_.schedule->check_step();
  optimizer.step();
  if (parts_.schedule != nullptr) parts_.schedule->step();
  ++steps_;
  epoch_ = epoch;
  epoch_.seconds += seconds_since(start);
  return losses.mean();
}

void TrainingRun::compare_ranks() const {
  if (ranks_.size() == 1) return;
  std::vector<std::uint64_t> sums;
  for (Parameter* parameter : parts_.optimizer.parameters()) {
    // Of a table that is not in memory as a whole, its last rows are compared.
    const Gradient& last = parameter->gradient();
    sums.push_back(checksum_of(parameter->stored().allows_passes() ? parameter->copy()
                               : last.is_rows() ? parameter->rows(last.rows().indices())
                                                : Tensor()));
  }
  const std::vector<std::uint64_t> all = ranks_.gather(std::span<const std::uint64_t>(sums));
  for (std::size_t i = 0; i < all.size(); ++i)
    check_runtime(all[i] == all[i % sums.size()], "TrainingRun: after step ", steps_, ", ",
                  parts_.optimizer.parameters()[i % sums.size()]->name(), " on rank ",
                  i / sums.size(), " differs from that on rank 0");
}

void TrainingRun::finish_epoch() {
  check_argument(epoch_.weight > 0, "TrainingRun: no target of epoch ", history_.size() + 1,
                 " counts, so it has no loss");
  EpochRecord record{.epoch = history_.size() + 1,
                     .steps = steps_,
                     .training_loss = epoch_.loss_sum / epoch_.weight,
                     .tokens_per_second = tokens_per_second()};
  if (parts_.validation != nullptr) {
    const auto of_validation = score(*parts_.validation, 0);
    if (!of_validation) return;
    record.validation_loss = of_validation->loss;
    record.validation_accuracy = of_validation->accuracy;
  }
  compare_ranks();
  history_.push_back(record);
  epoch_ = {};
  each([&](RunObserver& observer) { observer.after_epoch(*this, record); });
}

double TrainingRun::tokens_per_second() const {
  return epoch_.seconds > 0 ? static_cast<double>(epoch_.timed_tokens) / epoch_.seconds : 0;
}

}  // namespace rowgrad
