#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/ops/positions.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/optim/training/row_history.hpp>

namespace rowgrad {
namespace {

constexpr double kMostDecay = 0.999999;  // of a value in a step
constexpr double kLeastKept = 1e-30;     // of a value that decay has left, to tell where it began
constexpr std::size_t kFramesOfASteppedRun = 20;
constexpr std::size_t kTokensBefore = 8;  // of a lookup, that are kept as its text
constexpr std::size_t kTokensAfter = 3;
constexpr std::size_t kNoText = static_cast<std::size_t>(-1);
constexpr double kRounding = 1e-6;  // of a row's length: less is no movement

// |a − factor · b|
double distance(std::size_t width, const real* a, const real* b, double factor = 1) {
  double squares = 0;
  for (std::size_t i = 0; i < width; ++i) {
    const double difference = static_cast<double>(a[i]) - factor * static_cast<double>(b[i]);
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

// The distances of each of T5's buckets: "5", "19 to 22", "113 and more".
std::vector<std::string> t5_labels(const GptOptions& options) {
  const auto first_of = [&](std::size_t bucket) {  // its smallest distance
    std::size_t below = 0;
    for (std::size_t above = options.t5_max_distance; below < above;) {
      const std::size_t middle = below + (above - below) / 2;
      if (t5_bucket(middle, options.t5_buckets, options.t5_max_distance) < bucket)
        below = middle + 1;
      else
        above = middle;
    }
    return below;
  };
  std::vector<std::string> labels;
  for (std::size_t bucket = 0; bucket < options.t5_buckets; ++bucket) {
    const std::size_t first = first_of(bucket);
    const std::size_t next = first_of(bucket + 1);
    labels.push_back(bucket + 1 == options.t5_buckets ? concat(first, " and more")
                     : next == first                  ? std::string()  // a bucket without distances
                     : next == first + 1              ? concat(first)
                                                      : concat(first, " to ", next - 1));
  }
  return labels;
}

// The distance of each of Shaw's rows, whose last half are those of keys after their query.
std::vector<std::string> shaw_labels(std::size_t farthest) {
  std::vector<std::string> labels;
  for (std::size_t row = 0; row <= farthest; ++row) labels.push_back(concat(farthest - row));
  labels.front() += " and more";
  for (std::size_t ahead = 1; ahead <= farthest; ++ahead) labels.push_back(concat("−", ahead));
  return labels;
}

}  // namespace

const char* name_of(RowKind kind) {
  constexpr std::array<const char*, 5> kNames{"token", "position", "distance", "n-gram", "row"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::vector<TableHistory> table_histories(LanguageModel& model, std::size_t context) {
  std::vector<std::int32_t> window(context);  // positions, or distances from 0 on
  std::iota(window.begin(), window.end(), 0);
  auto* gpt = dynamic_cast<GptModel*>(&model);
  std::vector<TableHistory> tables;
  for (Parameter* parameter : model.parameters()) {
    const std::string& name = parameter->name();
    if (name == "token.weight") tables.emplace_back(*parameter, RowKind::kToken);
    if (name == "position.weight") tables.emplace_back(*parameter, RowKind::kPosition, window);
    if (gpt == nullptr) continue;
    const GptOptions& options = gpt->options();
    std::vector<std::int32_t> rows;
    if (name == "t5_table") {
      for (std::size_t i = 0; i < context; ++i)
        rows.push_back(
            static_cast<std::int32_t>(t5_bucket(i, options.t5_buckets, options.t5_max_distance)));
      tables.emplace_back(*parameter, RowKind::kDistance, rows, t5_labels(options));
    }
    if (name == "shaw_keys" || name == "shaw_values") {
      const std::size_t farthest = options.shaw_max_distance;
      for (std::size_t i = 0; i < context; ++i)
        rows.push_back(static_cast<std::int32_t>(farthest - std::min(i, farthest)));
      tables.emplace_back(*parameter, RowKind::kDistance, rows, shaw_labels(farthest));
    }
  }
  for (std::size_t i = 0; gpt != nullptr && i < gpt->memories.size(); ++i)
    tables.emplace_back(gpt->memories[i].table.weight, gpt->memories[i].hash());
  std::stable_sort(tables.begin(), tables.end(), [](const TableHistory& a, const TableHistory& b) {
    return a.kind() < b.kind();
  });
  return tables;
}

TableHistory::TableHistory(Parameter& table, RowKind kind, std::vector<std::int32_t> of_a_window,
                           std::vector<std::string> labels, std::size_t most_rows)
    : table_(&table),
      kind_(kind),
      of_a_window_(std::move(of_a_window)),
      labels_(std::move(labels)),
      most_rows_(most_rows) {}

TableHistory::TableHistory(Parameter& table, const NgramHash& hash)
    : TableHistory(table, RowKind::kNgram) {
  ngrams_.emplace(hash);
}

void TableHistory::look_up(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids)
    ++waiting_.try_emplace(id, Lookups{.batch = kNoText}).first->second.count;
}

void TableHistory::look_up(const Batch& batch) {
  for (const std::int32_t row : of_a_window_)
    waiting_.try_emplace(row, Lookups{.batch = kNoText}).first->second.count +=
        batch.inputs.shape(0);
  if (kind_ != RowKind::kToken && !ngrams_) return;
  const Ids rows = ngrams_ ? ngrams_->hash().rows(batch.inputs) : batch.inputs;
  const std::size_t of_a_token = ngrams_ ? ngrams_->hash().lookups() : 1;
  for (std::size_t i = 0; i < rows.size(); ++i)
    ++waiting_
          .try_emplace(rows.data()[i], Lookups{.batch = batches_.size(), .place = i / of_a_token})
          .first->second.count;
  if (ngrams_) ngrams_->add(batch.inputs);
  batches_.push_back(batch.inputs);
}

// What decay has left of each value, or 1 where that is too little to tell where one began.
double TableHistory::kept() const {
  const double kept = std::exp(log_kept_);
  return kept < kLeastKept ? 1 : kept;
}

// Before rows move that nobody follows, in a way that cannot be told backwards.
void TableHistory::copy_start(bool knows_decay) {
  const bool moves_all = is_dense_ || (!knows_decay && table_->shape()[0] <= kMostRows);
  if (!moves_all || start_.size() > 0 || !table_->stored().allows_passes()) return;
  start_ = table_->copy();
  start_ /= static_cast<real>(kept());
}

// Remembers the values that these rows began with, if it does not know them yet.
void TableHistory::begin(std::span<const std::int32_t> ids) {
  const std::size_t known = ids_.size();
  for (const std::int32_t id : ids)
    if (places_.emplace(id, ids_.size()).second) ids_.push_back(id);
  if (ids_.size() == known) return;
  const Tensor values = table_->rows(std::span(ids_).subspan(known));
  rows_.resize(ids_.size(), Row{.log_kept = log_kept_});
  steps_.resize(ids_.size());
  latest_.insert(latest_.end(), values.begin(), values.end());
  const std::size_t width = table_->shape()[1];
  const auto kept = static_cast<real>(this->kept());
  for (std::size_t i = known; i < ids_.size(); ++i)
    for (std::size_t c = 0; c < width; ++c)
      first_.push_back(start_.size() > 0
                           ? start_.data()[static_cast<std::size_t>(ids_[i]) * width + c]
                           : values.data()[(i - known) * width + c] / kept);
}

// Returns its norm.
double TableHistory::add_gradient(std::uint64_t step, Row& row,
                                  std::span<const real> values) const {
  ++row.steps;
  row.last = step;
  const auto squares = static_cast<double>(kernels::sum_span(
      values.size(), [](const kernels::Simd& x) { return x * x; }, values.data()));
  row.squares += squares;
  row.largest = std::max(row.largest, std::sqrt(squares));
  return std::sqrt(squares);
}

void TableHistory::before_update(std::uint64_t step, std::optional<double> known_decay) {
  step_ = step;
  decay_ = known_decay.value_or(0);
  const Gradient& gradient = table_->gradient();
  is_dense_ |= gradient.is_dense();
  copy_start(known_decay.has_value());
  now_.clear();
  if (gradient.is_dense()) {  // every row has a gradient: follow those that are looked up
    for (const auto& [id, lookups] : waiting_) now_.push_back(id);
    std::sort(now_.begin(), now_.end());
  } else if (gradient.is_rows()) {
    now_ = gradient.rows().indices();
  }
  rows_now_ = now_.size();
  if (sample_ > 1) count_touched(now_);
  std::vector<std::size_t> at(now_.size());  // in the gradient
  std::iota(at.begin(), at.end(), 0);
  if (sample_ > 1) {
    std::erase_if(at, [&](std::size_t i) { return !follows(now_[i]); });
    std::erase_if(now_, [&](std::int32_t id) { return !follows(id); });
  }
  of_now_.clear();
  if (!now_.empty()) {
    begin(now_);
    const std::size_t width = table_->shape()[1];
    before_ = table_->rows(now_);
    for (std::size_t i = 0; i < now_.size(); ++i) {
      const std::size_t place = places_.at(now_[i]);
      settle(rows_[place], before_.data() + i * width, latest_.data() + place * width);
      const real* of_gradient =
          gradient.is_dense() ? gradient.dense().data() + static_cast<std::size_t>(now_[i]) * width
                              : gradient.rows().row(at[i]).data();
      const double norm = add_gradient(step, rows_[place], {of_gradient, width});
      const auto found = waiting_.find(now_[i]);
      Lookups lookups = found != waiting_.end() ? found->second : Lookups{.batch = kNoText};
      if (kind_ == RowKind::kRow && waiting_.empty()) rows_[place].lookups += ++lookups.count;
      of_now_.push_back({place, lookups, norm});
    }
  }
  for (const auto& [id, lookups] : waiting_)
    if (const auto found = places_.find(id); found != places_.end())
      rows_[found->second].lookups += lookups.count;
  waiting_.clear();
  log_kept_ += std::log1p(-std::min(decay_, kMostDecay));
  has_decayed_ |= decay_ != 0;
  has_unknown_decay_ |= !known_decay.has_value();
}

// --- A sample of many rows ----------------------------------------------------------------------

bool TableHistory::follows(std::int32_t id) const {
  return splitmix64(static_cast<std::uint64_t>(id)) % sample_ == 0;
}

bool TableHistory::was_touched(std::int32_t id) const {
  return sample_ == 1 ? places_.contains(id) : touched_.at(static_cast<std::size_t>(id));
}

void TableHistory::count_touched(std::span<const std::int32_t> ids) {
  touched_.resize(table_->shape()[0]);
  for (const std::int32_t id : ids) {
    std::vector<bool>::reference touched = touched_[static_cast<std::size_t>(id)];
    touched_count_ += touched ? 0 : 1;
    touched = true;
  }
}

// Halves the sample: rows that are followed from now on have been since their first gradient.
void TableHistory::follow_fewer() {
  if (sample_ == 1) count_touched(ids_);
  sample_ *= 2;
  const std::size_t width = table_->shape()[1];
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < ids_.size(); ++i)
    if (follows(ids_[i])) kept.push_back(i);
  const auto keep = [&](auto& values, std::size_t each) {
    std::size_t end = 0;
    for (const std::size_t i : kept) {
      if ((i + 1) * each > values.size()) break;  // a frame has the rows of its time
      for (std::size_t k = 0; k < each; ++k) values[end++] = values[i * each + k];
    }
    values.resize(end);
    values.shrink_to_fit();
  };
  keep(ids_, 1);
  keep(rows_, 1);
  keep(steps_, 1);
  keep(first_, width);
  keep(latest_, width);
  for (Frame& frame : frames_) {
    keep(frame.rows, 1);
    keep(frame.moved, 1);
  }
  places_.clear();
  for (std::size_t i = 0; i < ids_.size(); ++i) places_[ids_[i]] = i;
}

// ------------------------------------------------------------------------------------------------

void TableHistory::after_update() {
  if (!now_.empty()) {
    const std::size_t width = table_->shape()[1];
    const Tensor values = table_->rows(now_);
    for (std::size_t i = 0; i < now_.size(); ++i) {
      const real* value = values.data() + i * width;
      const std::size_t place = of_now_[i].place;
      const double moved = distance(width, value, before_.data() + i * width, 1 - decay_);
      std::copy_n(value, width, latest_.data() + place * width);
      rows_[place].log_kept = log_kept_;
      rows_[place].path += moved;
      keep_step(of_now_[i], moved);
    }
    while (ids_.size() > most_rows_) follow_fewer();
  }
  batches_.clear();
}

// Among the steps of this row that moved it farthest, if it is one.
void TableHistory::keep_step(const Now& now, double moved) {
  std::vector<Step>& kept = steps_[now.place];
  if (kept.size() == kMostSteps) {
    if (moved <= kept.back().moved) return;
    kept.pop_back();
  }
  Step step{.step = step_,
            .lookups = now.lookups.count,
            .gradient_norm = now.gradient_norm,
            .moved = moved};
  copy_text(now.lookups, step);
  const auto place = std::ranges::upper_bound(kept, moved, std::greater<>(), &Step::moved);
  kept.insert(place, std::move(step));
}

void TableHistory::copy_text(const Lookups& lookups, Step& step) const {
  if (lookups.batch == kNoText) return;
  const Ids& batch = batches_.at(lookups.batch);
  const std::size_t context = batch.shape(batch.dimension() - 1);
  const std::size_t window = lookups.place / context * context;
  const std::size_t in_window = lookups.place - window;
  const std::size_t begin = in_window - std::min(in_window, kTokensBefore);
  const std::size_t end = std::min(in_window + kTokensAfter + 1, context);
  step.text.assign(batch.data() + window + begin, batch.data() + window + end);
  step.place = in_window - begin;
}

double TableHistory::moved_unfollowed(std::int32_t id, std::span<const real> value) const {
  const std::size_t width = value.size();
  if (start_.size() > 0)
    return distance(width, value.data(), start_.data() + static_cast<std::size_t>(id) * width);
  if (has_unknown_decay_ || std::exp(log_kept_) < kLeastKept) return std::nan("");
  return std::expm1(0 - log_kept_) * distance(width, value.data(), value.data(), 0);
}

// Adds the way from `then`, after the row's last update, to `now` to what it moved without
// gradients.
void TableHistory::settle(Row& row, const real* now, const real* then) const {
  const std::size_t width = table_->shape()[1];
  const double kept = std::exp(log_kept_ - row.log_kept);
  const double length = distance(width, then, then, 0);
  const double by_momentum = distance(width, now, then, kept);
  if (by_momentum > kRounding * length) row.momentum += by_momentum;
  row.decay += (1 - kept) * length;
  row.log_kept = log_kept_;
}

std::vector<TableHistory::Row> TableHistory::settled(const Tensor& values) const {
  const std::size_t width = table_->shape()[1];
  std::vector<Row> rows = rows_;
  for (std::size_t i = 0; i < rows.size(); ++i)
    settle(rows[i], values.data() + i * width, latest_.data() + i * width);
  return rows;
}

void TableHistory::take_frame(std::uint64_t step) {
  if (frame_calls_++ % calls_a_frame_ != 0) return;
  if (frames_.size() == kMostFrames) {  // every second one stays
    for (std::size_t i = 1; 2 * i < frames_.size(); ++i) frames_[i] = std::move(frames_[2 * i]);
    frames_.resize(kMostFrames / 2);
    calls_a_frame_ *= 2;
  }
  const std::vector<double> distances = moved();
  frames_.push_back({step, rows_, {distances.begin(), distances.end()}});
}

std::vector<double> TableHistory::moved() const {
  return ids_.empty() ? std::vector<double>() : moved_to(table_->rows(ids_));
}

std::vector<double> TableHistory::moved_to(const Tensor& values) const {
  const std::size_t width = table_->shape()[1];
  std::vector<double> distances;
  for (std::size_t i = 0; i < ids_.size(); ++i)
    distances.push_back(distance(width, values.data() + i * width, first_.data() + i * width));
  return distances;
}

std::vector<std::int32_t> TableHistory::most_frequent(std::size_t count) const {
  std::vector<std::size_t> places(ids_.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    return rows_[a].lookups > rows_[b].lookups;
  });
  places.resize(std::min(count, places.size()));
  std::vector<std::int32_t> ids;
  for (const std::size_t place : places) ids.push_back(ids_[place]);
  return ids;
}

TableHistory::Frame TableHistory::now(std::uint64_t step) const {
  if (ids_.empty()) return {step, {}, {}};
  const Tensor values = table_->rows(ids_);
  const std::vector<double> distances = moved_to(values);
  return {step, settled(values), {distances.begin(), distances.end()}};
}

std::optional<double> TableHistory::kept_without_gradient() const {
  return has_decayed_ ? std::optional(std::exp(log_kept_)) : std::nullopt;
}

RowHistory::RowHistory(Layer& model, std::size_t context) : model_(model) {
  if (auto* language = dynamic_cast<LanguageModel*>(&model))
    tables_ = table_histories(*language, context == 0 ? language->context() : context);
}

void RowHistory::on_batch(const TrainingRun&, const Batch& batch) {
  const Timer timer(cost_);
  for (TableHistory& table : tables_) table.look_up(batch);
  const bool has_tokens = std::ranges::any_of(
      tables_, [](const TableHistory& table) { return table.kind() == RowKind::kToken; });
  if (!has_tokens) batches_.push_back(batch);
}

void RowHistory::before_update(const TrainingRun& run) {
  before_update(run.steps() + 1, run.parts().optimizer);
}

void RowHistory::after_step(const TrainingRun& run, double /*loss*/) {
  const Timer timer(cost_);
  const std::size_t steps = run.parts().steps;
  const std::size_t steps_a_frame =
      steps > 0 ? std::max<std::size_t>(1, steps / kFramesOfASteppedRun) : run.steps_per_epoch();
  for (TableHistory& table : tables_) {
    table.after_update();
    if (run.steps() % steps_a_frame == 0) table.take_frame(run.steps());
  }
}

// The table's history, which begins now if it has none.
TableHistory& RowHistory::of(Parameter& table) {
  for (TableHistory& known : tables_)
    if (&known.table() == &table) return known;
  const auto* language = dynamic_cast<const LanguageModel*>(&model_);
  const bool is_of_tokens =
      language != nullptr && !batches_.empty() && table.shape()[0] == language->vocabulary();
  TableHistory& added = tables_.emplace_back(table, is_of_tokens ? RowKind::kToken : RowKind::kRow);
  if (is_of_tokens)
    for (const Batch& batch : std::exchange(batches_, {})) added.look_up(batch);
  return added;
}

void RowHistory::look_up(const Parameter& table, std::span<const std::int32_t> ids) {
  for (Parameter* parameter : model_.parameters())
    if (parameter == &table) of(*parameter).look_up(ids);
}

void RowHistory::before_update(std::uint64_t step, const Optimizer& optimizer) {
  const Timer timer(cost_);
  for (Parameter* parameter : model_.parameters())
    if (parameter->gradient().is_rows()) of(*parameter);
  batches_.clear();
  for (TableHistory& table : tables_)
    table.before_update(step, optimizer.idle_decay(table.table()));
}

void RowHistory::after_update(std::uint64_t step) {
  const Timer timer(cost_);
  for (TableHistory& table : tables_) {
    table.after_update();
    table.take_frame(step);
  }
}

}  // namespace rowgrad
