#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/parallel.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/layers/gpt/ngram_memory.hpp>
#include <rowgrad/optim/training/row_history.hpp>

namespace rowgrad {
namespace {

constexpr double kMostDecay = 0.999999;  // of a value in a step
constexpr double kLeastKept = 1e-30;     // of a value that decay has left, to tell where it began
constexpr std::size_t kFramesOfASteppedRun = 20;
constexpr std::size_t kTokensBefore = 8;  // of a lookup, that are kept as its text
constexpr std::size_t kTokensAfter = 3;
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

}  // namespace

std::shared_ptr<const Ids> tokens_of(const Tape::Lookup& lookup, std::string_view kind) {
  const std::shared_ptr<const Ids>& tokens =
      lookup.tokens == nullptr && kind == "token" ? lookup.owner : lookup.tokens;
  const bool has_some = tokens != nullptr && tokens->dimension() > 0 && tokens->size() > 0;
  return has_some ? tokens : nullptr;
}

TableHistory::TableHistory(Parameter& table, RowNames names, const NgramHash* hash,
                           std::size_t most_rows, TablePlacement* tables)
    : table_(&table), tables_(tables), names_(std::move(names)), most_rows_(most_rows) {
  if (hash != nullptr) ngrams_.emplace(*hash);
}

Tensor TableHistory::values(const std::vector<std::int32_t>& ids) const {
  const TableLookup lookup{table_, ids};
  if (tables_ != nullptr) tables_->fetch({&lookup, 1});
  return table_->rows(ids);
}

void TableHistory::look_up(std::shared_ptr<const Ids> ids, std::shared_ptr<const Ids> tokens) {
  if (ngrams_ && tokens != nullptr) ngrams_->add(*tokens);
  waiting_.push_back({std::move(ids), std::move(tokens)});
}

// What decay has left of each value, or 1 where that is too little to tell where one began.
double TableHistory::kept() const {
  const double kept = std::exp(log_kept_);
  return kept < kLeastKept ? 1 : kept;
}

// Before rows move that nobody follows, in a way that cannot be told backwards.
void TableHistory::copy_start(bool knows_decay) {
  const bool moves_all = is_dense_ || (!knows_decay && table_->shape()[0] <= kMostRows);
  if (!moves_all || start_.size() > 0 || !table_->is_in_memory()) return;
  start_ = table_->copy();
  start_ /= static_cast<real>(kept());
}

// The row's place among ids(); none if so many are followed already that it is only counted.
std::optional<std::size_t> TableHistory::follow(std::int32_t id) {
  if (const auto known = place_of(id)) return known;
  if (ids_.size() < most_rows_) {
    places_.emplace(id, ids_.size());
    ids_.push_back(id);
    rows_.emplace_back();
    steps_.emplace_back().reserve(kMostSteps);
    return ids_.size() - 1;
  }
  is_not_followed_.resize(table_->shape()[0]);
  std::vector<bool>::reference is_counted = is_not_followed_[static_cast<std::size_t>(id)];
  not_followed_ += is_counted ? 0 : 1;
  is_counted = true;
  return std::nullopt;
}

std::optional<std::size_t> TableHistory::place_of(std::int32_t id) const {
  const auto found = places_.find(id);
  return found != places_.end() ? std::optional(found->second) : std::nullopt;
}

bool TableHistory::was_touched(std::int32_t id) const {
  return place_of(id) || (not_followed_ > 0 && is_not_followed_.at(static_cast<std::size_t>(id)));
}

// Remembers the values that a row began with, which has this one before its first gradient.
void TableHistory::begin(std::size_t place, const real* value) {
  const std::size_t width = table_->shape()[1];
  const auto kept = static_cast<real>(this->kept());
  const std::size_t start = static_cast<std::size_t>(ids_[place]) * width;
  real* const first = first_.data() + place * width;
  if (start_.size() > 0)
    std::copy_n(start_.data() + start, width, first);
  else
    std::transform(value, value + width, first, [kept](real x) { return x / kept; });
  std::copy_n(value, width, latest_.data() + place * width);
  rows_[place].log_kept = log_kept_;
}

// Returns its norm.
double TableHistory::add_gradient(Row& row, std::span<const real> values) const {
  ++row.steps;
  row.last = step_;
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
  std::vector<std::int32_t> looked_up;
  for (const Lookup& lookup : waiting_)
    looked_up.insert(looked_up.end(), lookup.ids->begin(), lookup.ids->end());
  const kernels::RowGroups lookups(looked_up, std::nullopt);
  std::vector<std::int32_t> ids;  // with a gradient, in increasing order
  if (gradient.is_dense())        // every row has one: follow those that are looked up
    ids = lookups.indices;
  else if (gradient.is_rows())
    ids = gradient.rows().indices();
  rows_now_ = ids.size();

  const std::size_t width = table_->shape()[1];
  const std::size_t known = ids_.size();
  now_.clear();
  now_ids_.clear();
  // Those of rows without a gradient, such as that of padding, count if it had one before.
  std::size_t next = 0;
  const auto count_until = [&](std::int64_t id) {
    for (; next < lookups.indices.size() && lookups.indices[next] < id; ++next)
      if (const auto place = place_of(lookups.indices[next]))
        rows_[*place].lookups += lookups.starts[next + 1] - lookups.starts[next];
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    count_until(ids[i]);
    const std::optional<std::size_t> place = follow(ids[i]);
    if (!place) continue;
    now_ids_.push_back(ids[i]);
    now_.push_back({.place = *place,
                    .of_gradient = gradient.is_dense() ? static_cast<std::size_t>(ids[i]) : i});
    if (next == lookups.indices.size() || lookups.indices[next] != ids[i]) continue;
    const std::size_t first = lookups.starts[next], end = lookups.starts[++next];
    now_.back().lookups = end - first;
    now_.back().first_lookup = lookups.position(first);
    rows_[*place].lookups += end - first;
  }
  count_until(std::numeric_limits<std::int64_t>::max());
  first_.resize(ids_.size() * width);
  latest_.resize(ids_.size() * width);
  if (!now_.empty()) {
    before_ = this->values(now_ids_);
    const real* const gradients =
        gradient.is_dense() ? gradient.dense().data() : gradient.rows().values().data();
    kernels::parallel_for(
        now_.size(), kernels::row_grain(width), [&](std::size_t first, std::size_t end) {
          for (std::size_t i = first; i < end; ++i) {
            const std::size_t place = now_[i].place;
            const real* const value = before_.data() + i * width;
            if (place >= known)
              begin(place, value);
            else
              settle(rows_[place], value, latest_.data() + place * width);
            now_[i].gradient_norm =
                add_gradient(rows_[place], {gradients + now_[i].of_gradient * width, width});
          }
        });
  }
  log_kept_ += std::log1p(-std::min(decay_, kMostDecay));
  has_decayed_ |= decay_ != 0;
  has_unknown_decay_ |= !known_decay.has_value();
}

void TableHistory::after_update() {
  if (!now_.empty()) {
    const std::size_t width = table_->shape()[1];
    const Tensor values = this->values(now_ids_);
    kernels::parallel_for(
        now_.size(), kernels::row_grain(width), [&](std::size_t first, std::size_t end) {
          for (std::size_t i = first; i < end; ++i) {
            const real* const value = values.data() + i * width;
            const std::size_t place = now_[i].place;
            const double moved = distance(width, value, before_.data() + i * width, 1 - decay_);
            std::copy_n(value, width, latest_.data() + place * width);
            rows_[place].log_kept = log_kept_;
            rows_[place].path += moved;
            keep_step(now_[i], moved);
          }
        });
  }
  waiting_.clear();
}

// Among the steps of this row that moved it farthest, if it is one.
void TableHistory::keep_step(const Now& now, double moved) {
  std::vector<Step>& kept = steps_[now.place];
  if (kept.size() == kMostSteps) {
    if (moved <= kept.back().moved) return;
    kept.pop_back();
  }
  Step step{
      .step = step_, .lookups = now.lookups, .gradient_norm = now.gradient_norm, .moved = moved};
  copy_text(now, step);
  const auto place = std::ranges::upper_bound(kept, moved, std::greater<>(), &Step::moved);
  kept.insert(place, std::move(step));
}

// The tokens around its first lookup.
void TableHistory::copy_text(const Now& now, Step& step) const {
  if (now.lookups == 0) return;
  std::size_t place = now.first_lookup;
  auto lookup = waiting_.begin();
  for (; place >= lookup->ids->size(); ++lookup) place -= lookup->ids->size();
  const std::shared_ptr<const Ids>& tokens = lookup->tokens;
  if (tokens == nullptr) return;
  place /= lookup->ids->size() / tokens->size();
  const std::size_t context = tokens->shape().back();
  const std::size_t in_window = place % context;
  const std::size_t before = std::min(in_window, kTokensBefore);
  const std::size_t after = std::min(kTokensAfter, context - 1 - in_window);
  step.text.assign(tokens->data() + place - before, tokens->data() + place + after + 1);
  step.place = before;
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
  row.log_kept = log_kept_;
  if (kept == 1 && std::equal(now, now + width, then)) return;
  const double length = distance(width, then, then, 0);
  const double by_momentum = distance(width, now, then, kept);
  if (by_momentum > kRounding * length) row.momentum += by_momentum;
  row.decay += (1 - kept) * length;
}

void TableHistory::take_frame(std::uint64_t step) {
  if (frame_calls_++ % calls_a_frame_ != 0) return;
  if (frames_.size() == kMostFrames) {  // every second one stays
    for (std::size_t i = 1; 2 * i < frames_.size(); ++i) frames_[i] = std::move(frames_[2 * i]);
    frames_.resize(kMostFrames / 2);
    calls_a_frame_ *= 2;
  }
  frames_.push_back(now(step));
}

TableHistory::Frame TableHistory::now(std::uint64_t step) const {
  Frame frame{step, rows_, std::vector<double>(ids_.size())};
  if (ids_.empty()) return frame;
  const Tensor values = this->values(ids_);
  const std::size_t width = table_->shape()[1];
  kernels::parallel_for(ids_.size(), kernels::row_grain(width),
                        [&](std::size_t begin, std::size_t end) {
                          for (std::size_t i = begin; i < end; ++i) {
                            const real* const value = values.data() + i * width;
                            frame.moved[i] = distance(width, value, first_.data() + i * width);
                            settle(frame.rows[i], value, latest_.data() + i * width);
                          }
                        });
  return frame;
}

std::vector<std::int32_t> TableHistory::most_frequent(std::size_t count) const {
  std::vector<std::size_t> places(ids_.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, std::greater<>(),
                           [&](std::size_t place) { return rows_[place].lookups; });
  places.resize(std::min(count, places.size()));
  std::vector<std::int32_t> ids;
  for (const std::size_t place : places) ids.push_back(ids_[place]);
  return ids;
}

std::optional<double> TableHistory::kept_without_gradient() const {
  return has_decayed_ ? std::optional(std::exp(log_kept_)) : std::nullopt;
}

TableHistory& RowHistory::of(Parameter& table) {
  for (TableHistory& known : tables_)
    if (&known.table() == &table) return known;
  const std::vector<Parameter*> all = model_.parameters_on_tape();
  check_argument(std::ranges::count(all, &table) > 0, "RowHistory: ", table.name(),
                 " is no parameter of the model");
  const NgramHash* hash = nullptr;
  for (const auto& [name, memory] : model_.named_layers<NgramMemory>())
    if (&memory->table.table() == &table) hash = &memory->hash();
  TableHistory added(table, model_.names_of_rows(table), hash, TableHistory::kMostRows,
                     tables_of_model_);
  const auto order = [&](const TableHistory& of) {
    return std::pair(of.kind() != "token", std::ranges::find(all, &of.table()) - all.begin());
  };
  const auto place = std::ranges::upper_bound(tables_, order(added), {}, order);
  return *tables_.insert(place, std::move(added));
}

void RowHistory::after_backward(const Tape& tape) {
  const Timer timer(cost_);
  const std::vector<Parameter*> own = model_.parameters_on_tape();
  bool has_own = false;
  for (const Tape::Lookup& lookup : tape.lookups()) {
    if (std::ranges::count(own, lookup.table) == 0) continue;
    has_own = true;
    if (!lookup.table->trainable()) continue;
    TableHistory& table = of(*lookup.table);
    table.look_up(lookup.owner, tokens_of(lookup, table.kind()));
  }
  if (!has_own && !tape.lookups().empty())
    check_argument(false, "RowHistory: the tape has looked up ",
                   tape.lookups().front().table->name(), ", which is no parameter of the model");
}

void RowHistory::before_update(std::uint64_t step, const Optimizer& optimizer) {
  const Timer timer(cost_);
  begun_ = step;
  const std::vector<Parameter*> own = model_.parameters(), on_tape = model_.parameters_on_tape();
  for (Parameter* parameter : on_tape)
    if (parameter->gradient().is_rows()) of(*parameter);
  for (TableHistory& table : tables_) {
    const auto i = std::ranges::find(on_tape, &table.table()) - on_tape.begin();
    table.before_update(step, optimizer.decay_without_gradient(*own[static_cast<std::size_t>(i)]));
  }
}

void RowHistory::before_update(const TrainingRun& run) {
  before_update(run.steps() + 1, run.parts().optimizer);
}

void RowHistory::after_step(const TrainingRun& run, const StepResult& result) {
  if (!result.loss) return;
  const std::size_t steps = run.parts().steps;
  const std::size_t steps_a_frame =
      steps > 0 ? std::max<std::size_t>(1, steps / kFramesOfASteppedRun) : run.steps_per_epoch();
  end_step(run.steps(), run.steps() % steps_a_frame == 0);
}

void RowHistory::after_update(std::uint64_t step) { end_step(step, true); }

void RowHistory::end_step(std::uint64_t step, bool has_frame) {
  const Timer timer(cost_);
  check_state(begun_ == step, "RowHistory: before_update(", step,
              ", …) was not called before that step was made");
  begun_ = 0;
  for (TableHistory& table : tables_) {
    table.after_update();
    if (has_frame) table.take_frame(step);
  }
}

}  // namespace rowgrad
