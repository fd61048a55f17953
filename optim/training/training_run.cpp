#include <algorithm>
#include <chrono>

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/optim/gradient_clipping.hpp>
#include <rowgrad/optim/training/arithmetic.hpp>
#include <rowgrad/optim/training/training_run.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Shape> shapes_of(const std::vector<Parameter*>& parameters) {
  std::vector<Shape> shapes;
  for (const Parameter* parameter : parameters) shapes.push_back(parameter->shape());
  return shapes;
}

Batch rows_of(const Batch& batch, IndexRange part) {
  const auto cut = [&](const Ids& ids) {
    Ids rows = Ids::from_shape({part.size(), ids.shape(1)});
    std::copy_n(ids.data() + part.begin * ids.shape(1), rows.size(), rows.data());
    return rows;
  };
  return {cut(batch.inputs), cut(batch.targets)};
}

// How many batches of a step have targets that count, at least 1: the mean is over these.
double counted_batches(std::span<const double> weights) {
  const auto count = std::ranges::count_if(weights, [](double weight) { return weight > 0; });
  return static_cast<double>(std::max<std::ptrdiff_t>(count, 1));
}

std::uint64_t checksum_of(const Tensor& values) {
  Checksum sum;
  sum.add_words(std::as_bytes(std::span(values.data(), values.size())));
  return sum.value();
}

}  // namespace

TrainingRun::TrainingRun(const TrainingParts& parts)
    : parts_(parts),
      ranks_(parts.ranks != nullptr ? *parts.ranks : alone_),
      all_count_(!parts.loader.windows().has_own_targets() && !parts.loss.class_weights &&
                 parts.loss.ignore_index.value_or(-1) < 0),
      arithmetic_(arithmetic_fingerprint(parts.model.parameters())) {
  follow_optimizer();
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

// Prepares for the optimizer's parameters, which may have become more.
void TrainingRun::follow_optimizer() {
  const std::vector<Parameter*>& parameters = parts_.optimizer.parameters();
  if (indices_.size() == parameters.size()) return;
  exchange_.emplace(ranks_, parts_.shards, shapes_of(parameters), parts_.bucket_bytes);
  indices_.clear();
  for (std::size_t p = 0; p < parameters.size(); ++p) indices_[parameters[p]] = p;
  has_files_ = std::ranges::any_of(parameters,
                                   [](Parameter* each) { return !each->stored().allows_passes(); });
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
  follow_optimizer();
  parts_.loader.continue_epoch();
  bool reads_batches = false;
  each([&](const RunObserver& observer) { reads_batches |= observer.reads_batches(); });
  read_ = reads_batches ? IndexRange{0, parts_.shards}
                        : range_of(parts_.shards, ranks_.rank(), ranks_.size());
  const struct Shard {
    DataLoader& loader;
    ~Shard() { loader.set_shard({}); }  // even if something throws
  } shard{parts_.loader};
  parts_.loader.set_shard({read_.begin, read_.end, parts_.shards});
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
  if (has_files_) {
    for (std::size_t i = 1; i < count; ++i) parts_.model.read_ahead(of_step[i].inputs);
    parts_.model.read_ahead(batches.next_inputs());
  }
  const std::vector<double> weights = batch_weights(of_step);
  const std::vector<double> losses = parts_.shards == 1 ? add_gradients(of_step, weights)
                                                        : add_gradients_of_shards(of_step, weights);
  double loss_sum = 0;  // of the batches
  Epoch epoch = epoch_;
  for (std::size_t i = 0; i < count; ++i) {
    loss_sum += losses[i];
    epoch.loss_sum += losses[i] * weights[i];
    epoch.weight += weights[i];
    epoch.timed_tokens += rows(i) * parts_.loader.windows().context();
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
  return loss_sum / counted_batches(weights);
}

// These two add the gradients of a step's batches to the parameters, and return the batches'
// losses.
std::vector<double> TrainingRun::add_gradients(std::span<const Batch> batches,
                                               std::span<const double> weights) {
  const std::vector<Parameter*>& parameters = parts_.optimizer.parameters();
  std::vector<double> losses(batches.size());
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (weights[i] == 0) continue;
    losses[i] = go_backward(batches[i], parts_.random, 1 / counted_batches(weights),
                            [&](std::size_t index, Gradient gradient) {
                              parameters[index]->add_gradient(std::move(gradient));
                            });
  }
  return losses;
}

std::vector<double> TrainingRun::add_gradients_of_shards(std::span<const Batch> batches,
                                                         std::span<const double> weights) {
  const std::size_t count = batches.size();
  std::vector<double> losses(parts_.shards * count);  // [shard][batch], shares of the mean
  const std::uint32_t seed = parts_.random.bits();
  // With `give`, the exchange gets those that the last batch has a part in, and they are not
  // returned.
  const auto of_shard = [&](std::size_t shard, bool give) {
    Gradients sums(indices_.size());
    Random random(seed + 0x9E3779B9U * static_cast<std::uint32_t>(shard));
    for (std::size_t i = 0; i < count; ++i) {
      const double weight = shard_weight(batches[i], i, shard);
      if (weight == 0) continue;
      const double share = weight / weights[i];
      const double loss =
          go_backward(part_of(batches[i], i, shard), random, share / counted_batches(weights),
                      [&](std::size_t index, Gradient gradient) {
                        sums[index].add(std::move(gradient));
                        if (give && i + 1 == count)
                          exchange_->give(index, std::exchange(sums[index], {}));
                      });
      losses[shard * count + i] = loss * share;
    }
    return sums;
  };
  const std::vector<IndexRange>& subtrees = exchange_->subtrees();
  std::vector<Gradients> earlier;
  for (std::size_t i = 0; i + 1 < subtrees.size(); ++i)
    earlier.push_back(sum_of_tree<Gradients>(
        subtrees[i],
        [&](IndexRange range, Gradients& gradients) {
          if (range.size() == 1) gradients = of_shard(range.begin, false);
          return range.size() == 1;
        },
        [](Gradients& a, Gradients&& b) { add(a, std::move(b)); }));
  exchange_->start(std::move(earlier));
  // Others get the gradients of the last shard while it still goes backward.
  Gradients rest = of_shard(subtrees.back().begin, true);
  for (std::size_t p = 0; p < rest.size(); ++p)
    if (!rest[p].is_none()) exchange_->give(p, std::move(rest[p]));
  Gradients sums = exchange_->finish();
  const std::vector<Parameter*>& parameters = parts_.optimizer.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p)
    if (!sums[p].is_none()) parameters[p]->add_gradient(std::move(sums[p]));

  std::vector<double> means(count, 0);
  losses = of_all_shards(losses, count);
  for (std::size_t i = 0; i < losses.size(); ++i) means[i % count] += losses[i];
  return means;
}

// Numbers [shard][batch] of which each rank has those of its own shards.
std::vector<double> TrainingRun::of_all_shards(const std::vector<double>& own,
                                               std::size_t batches) const {
  const std::vector<double> all = ranks_.gather(std::span<const double>(own));
  std::vector<double> numbers(own.size());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const IndexRange shards = range_of(parts_.shards, rank, ranks_.size());
    for (std::size_t i = shards.begin * batches; i < shards.end * batches; ++i)
      numbers[i] = all[rank * own.size() + i];
  }
  return numbers;
}

// The rows of a shard of batch `index` of this step.
Batch TrainingRun::part_of(const Batch& batch, std::size_t index, std::size_t shard) const {
  const IndexRange part = range_of(rows(index), shard, parts_.shards);
  const std::size_t first = range_of(rows(index), read_.begin, parts_.shards).begin;
  return rows_of(batch, {part.begin - first, part.end - first});
}

// The sum of the weights of its targets.
double TrainingRun::shard_weight(const Batch& batch, std::size_t index, std::size_t shard) const {
  if (all_count_)
    return static_cast<double>(range_of(rows(index), shard, parts_.shards).size() *
                               parts_.loader.windows().context());
  return total_weight(part_of(batch, index, shard).targets, parts_.model.classes(), parts_.loss);
}

// Of whole batches, on all ranks.
std::vector<double> TrainingRun::batch_weights(std::span<const Batch> batches) const {
  // Each shard's, so that they are added in the same order on any number of ranks.
  const std::size_t count = batches.size();
  std::vector<double> of_shards(parts_.shards * count);
  const IndexRange own = all_count_ ? IndexRange{0, parts_.shards}
                                    : range_of(parts_.shards, ranks_.rank(), ranks_.size());
  for (std::size_t shard = own.begin; shard < own.end; ++shard)
    for (std::size_t i = 0; i < count; ++i)
      of_shards[shard * count + i] = shard_weight(batches[i], i, shard);
  if (!all_count_) of_shards = of_all_shards(of_shards, count);
  std::vector<double> weights(count, 0);
  for (std::size_t i = 0; i < of_shards.size(); ++i) weights[i % count] += of_shards[i];
  return weights;
}

// Returns the loss; `sink` gets the gradients of `weight` times it, by index of the parameter.
double TrainingRun::go_backward(const Batch& batch, Random& random, double weight,
                                const auto& sink) {
  Tape tape(random);
  const Variable loss = parts_.model.loss(tape, batch.inputs, batch.targets, parts_.loss);
  tape.backward(loss, scalar(static_cast<real>(weight)),
                {.keep_values = false, .sink = [&](Parameter& parameter, Gradient gradient) {
                   const auto index = indices_.find(&parameter);
                   if (index == indices_.end()) refuse(parameter, tape);
                   sink(index->second, std::move(gradient));
                 }});
  each([&](RunObserver& observer) { observer.after_backward(*this, tape); });
  return loss.item();
}

// For a parameter that the run does not train, although it gets a gradient.
void TrainingRun::refuse(const Parameter& parameter, const Tape& tape) const {
  parts_.optimizer.check_trains_all(tape);
  throw std::logic_error(concat("TrainingRun: ", parameter.name(),
                                " became a parameter of the optimizer during an epoch"));
}

// Of a batch of this step, on all ranks.
std::size_t TrainingRun::rows(std::size_t batch) const {
  return parts_.loader.rows(steps_ % steps_per_epoch() * parts_.accumulate + batch);
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
