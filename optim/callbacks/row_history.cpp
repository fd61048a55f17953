#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/kernels/parallel.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>
#include <rowgrad/optim/row_watcher.hpp>

namespace rowgrad {
namespace {

constexpr double kMaxDecay = 0.999999;  // fraction of a value in a step
constexpr double kMinKept = 1e-30;  // minimum fraction from which initial values can be computed
constexpr double kRounding = 1e-6;  // fraction of a row's length that may be rounding
constexpr std::size_t kAhead = 4, kLookupsAhead = 16;  // rows and lookups to prefetch
constexpr std::size_t kRowsPerRead = 1024;

using kernels::distance;

// Returns the fraction of each value that decay has left, or 1 if this fraction is too small to
// compute the initial values.
double kept_of(double log_kept) {
  const double kept = std::exp(log_kept);
  return kept < kMinKept ? 1 : kept;
}

// Checks the shape of a table and returns its number of rows.
std::size_t rows_of(const Parameter& table) {
  kernels::check_table(table.name(), table.shape());
  return table.shape()[0];
}

}  // namespace

TableHistory::TableHistory(Parameter& table, RowNames names, std::size_t max_rows,
                           TablePlacement* tables)
    : table_(&table),
      tables_(tables),
      names_(std::move(names)),
      max_rows_(max_rows),
      counts_(rows_of(table)),
      values_(counts_.size(), table.shape()[1]) {
  values_.add_slot();
  // Reserves only addresses; pages are allocated on first use.
  ids_.reserve(std::min(max_rows, table.shape()[0]));
  records_.reserve(ids_.capacity());
  steps_.reserve(kMaxSteps * ids_.capacity());
  if (names_.ngrams != nullptr) ngrams_.emplace(*names_.ngrams);
}

Tensor TableHistory::values(std::span<const std::int32_t> ids) const {
  if (tables_ != nullptr) {
    const TableLookup lookup{table_, {ids.begin(), ids.end()}};
    tables_->fetch({&lookup, 1});
  }
  return table_->rows(ids);
}

void TableHistory::look_up(std::shared_ptr<const Ids> ids, std::shared_ptr<const Ids> tokens) {
  kernels::check_ids("TableHistory", ids->storage(), ids->shape(), table_->shape()[0]);
  if (ngrams_ && tokens != nullptr) ngrams_->add(*tokens);
  // Branch-free, because a processor cannot predict whether a lookup is the first of its row.
  std::size_t distinct = looked_up_.size();
  looked_up_.resize(distinct + ids->size());
  std::int32_t* const looked_up = looked_up_.data();
  Count* const counts = counts_.data();
  const std::span<const std::int32_t> all = ids->storage();
  for (std::size_t i = 0; i < all.size(); ++i) {
    __builtin_prefetch(&counts[all[std::min(i + kLookupsAhead, all.size() - 1)]], 1);
    Count& count = counts[all[i]];
    const bool is_first = count.lookups++ == 0;
    count.first = is_first ? static_cast<std::uint32_t>(lookups_ + i) : count.first;
    looked_up[distinct] = all[i];
    distinct += is_first ? 1 : 0;
  }
  looked_up_.resize(distinct);
  lookups_ += ids->size();
  waiting_.push_back({std::move(ids), std::move(tokens)});
}

// Copies the table if the update moves untracked rows in a way that cannot be undone.
void TableHistory::copy_start(bool knows_decay) {
  const bool moves_all = is_dense_ || (!knows_decay && table_->shape()[0] <= kMaxRows);
  if (!moves_all || start_.size() > 0 || !table_->is_in_memory()) return;
  start_ = table_->copy();
  start_ /= static_cast<real>(kept_of(log_kept_));
}

// Starts to keep the values of each row after its steps. Must be called before rows move without a
// gradient.
void TableHistory::keep_latest() {
  if (keeps_latest_) return;
  const std::size_t width = table_->shape()[1];
  const Tensor latest = ids_.empty() ? empty({0}) : this->values(ids_);
  values_.add_slot();
  keeps_latest_ = true;
  for (std::size_t index = 0; index < ids_.size(); ++index)
    std::copy_n(latest.data() + index * width, width, values_.at(index + 1) + width);
}

// Tracks a row, or only counts it if max_rows_ rows are tracked already.
void TableHistory::track(std::int32_t id) {
  if (ids_.size() < max_rows_) {
    values_.make({&id, 1});  // may throw; the rest cannot
    ids_.push_back(id);
    records_.emplace_back();
    steps_.resize(steps_.size() + kMaxSteps);
    return;
  }
  is_not_tracked_.resize(table_->shape()[0]);
  std::vector<bool>::reference is_counted = is_not_tracked_[static_cast<std::size_t>(id)];
  not_tracked_ += is_counted ? 0 : 1;
  is_counted = true;
}

std::optional<std::size_t> TableHistory::index_of(std::int32_t id) const {
  if (id < 0 || std::cmp_greater_equal(id, table_->shape()[0])) return std::nullopt;
  const std::size_t number = values_.number_of(static_cast<std::size_t>(id));
  return number > 0 ? std::optional(number - 1) : std::nullopt;
}

bool TableHistory::was_touched(std::int32_t id) const {
  return index_of(id) || (not_tracked_ > 0 && is_not_tracked_.at(static_cast<std::size_t>(id)));
}

// Writes the initial values of a row to `first`. `value` has its values before its first gradient.
void TableHistory::begin(real* first, std::int32_t id, const real* value) const {
  const std::size_t width = table_->shape()[1];
  const auto kept = static_cast<real>(kept_of(log_kept_));
  if (start_.size() > 0)
    std::copy_n(start_.data() + static_cast<std::size_t>(id) * width, width, first);
  else
    std::transform(value, value + width, first, [kept](real x) { return x / kept; });
}

// Adds the movement between `then` and `now` to the distances moved without gradients. `then` has
// the values after the row's last update.
void TableHistory::settle(Row& row, const real* now, const real* then, double log_kept) const {
  const std::size_t width = table_->shape()[1];
  const double kept = log_kept != row.log_kept ? std::exp(log_kept - row.log_kept) : 1;
  row.log_kept = log_kept;
  if (kept == 1 && std::memcmp(now, then, width * sizeof(real)) == 0) return;
  const double length = kernels::length(width, then);
  const double by_momentum = distance(width, now, then, kept);
  if (by_momentum > kRounding * length) row.momentum += by_momentum;
  row.decay += (1 - kept) * length;
}

void TableHistory::before_update(std::uint64_t step, const Update& update) {
  awaits_update_ = was_watched_ = false;
  step_ = step;
  update_ = update;
  version_before_ = table_->version();
  const Gradient& gradient = table_->gradient();
  is_dense_ |= gradient.is_dense();
  copy_start(update.decay.has_value());
  if (gradient.is_dense())  // track only rows that are looked up
    std::ranges::sort(now_ = looked_up_);
  else if (gradient.is_rows())
    now_ = gradient.rows().indices();
  else
    now_.clear();
  const bool has_moved = !ids_.empty() && version_before_ != version_;
  if (!now_.empty() && (!update.is_watched || update.moves_all || has_moved)) keep_latest();
  for (const std::int32_t id : now_)
    if (values_.number_of(static_cast<std::size_t>(id)) == 0) track(id);
  const auto has_tokens = [](const Lookup& lookup) { return lookup.tokens != nullptr; };
  if (!texts_.empty() || std::ranges::any_of(waiting_, has_tokens)) texts_.resize(steps_.size());

  const std::size_t width = table_->shape()[1];
  norms_.resize(now_.size());
  kernels::parallel_for_each(now_.size(), width,
                             [width, gradients = gradient.values().data(), norms = norms_.data(),
                              ids = gradient.is_dense() ? now_.data() : nullptr](std::size_t i) {
                               const std::size_t row =
                                   ids != nullptr ? static_cast<std::size_t>(ids[i]) : i;
                               norms[i] = kernels::length(width, gradients + row * width);
                             });
  before_ = update.is_watched || now_.empty() ? empty({0}) : this->values(now_);
  log_kept_after_ = log_kept_ + std::log1p(-std::min(update.decay.value_or(0), kMaxDecay));
  awaits_update_ = true;
}

bool TableHistory::begin_step(const RowGradient& gradient) {
  was_watched_ = awaits_update_ && update_.is_watched && gradient.indices() == now_;
  return was_watched_;
}

void TableHistory::row_changed(std::size_t i, const real* before, const real* after) {
  const std::size_t width = table_->shape()[1];
  if (i + kAhead < now_.size())
    if (const std::size_t number = values_.number_of(static_cast<std::size_t>(now_[i + kAhead]))) {
      __builtin_prefetch(&records_[number - 1], 1, 2);
      if (keeps_latest_) kernels::prefetch_row(values_.at(number) + width, width);
    }
  const std::size_t number = values_.number_of(static_cast<std::size_t>(now_[i]));
  if (number == 0) return;
  Record& record = records_[number - 1];
  Row& row = record.row;
  real* const first = values_.at(number);
  if (row.steps == 0)
    begin(first, now_[i], before);
  else if (keeps_latest_)
    settle(row, before, first + width, log_kept_);
  if (keeps_latest_) {
    std::copy_n(after, width, first + width);
    row.log_kept = log_kept_after_;
  }
  const double moved = distance(width, after, before, 1 - update_.decay.value_or(0));
  const Count count = std::exchange(counts_[static_cast<std::size_t>(now_[i])], {});
  row.lookups += count.lookups;
  ++row.steps;
  row.last = step_;
  row.squares += norms_[i] * norms_[i];
  row.largest = std::max(row.largest, norms_[i]);
  row.path += moved;
  float* const shortest = std::ranges::min_element(record.kept);
  if (static_cast<float>(moved) <= *shortest) return;
  *shortest = static_cast<float>(moved);
  const std::size_t at =
      (number - 1) * kMaxSteps + static_cast<std::size_t>(shortest - record.kept.begin());
  steps_[at] = {step_, count.lookups, norms_[i], moved};
  if (!texts_.empty()) texts_[at] = count.lookups > 0 ? text_of(count.first) : KeptText();
}

bool TableHistory::after_update() {
  if (!std::exchange(awaits_update_, false)) return true;
  const bool is_missing = update_.is_watched && !std::exchange(was_watched_, false);
  if (!update_.is_watched && !now_.empty()) {
    const Tensor after = this->values(now_);
    const std::size_t width = table_->shape()[1];
    kernels::parallel_for_each(now_.size(), width, [&, width](std::size_t i) {
      row_changed(i, before_.data() + i * width, after.data() + i * width);
    });
  }
  if (!is_missing) {
    log_kept_ = log_kept_after_;
    has_decayed_ |= update_.decay.value_or(0) != 0;
    has_unknown_decay_ |= !update_.decay.has_value();
  }
  for (const std::int32_t id : looked_up_) {  // rows without a gradient, such as padding
    Count& count = counts_[static_cast<std::size_t>(id)];
    if (count.lookups == 0) continue;
    if (const auto index = index_of(id)) records_[*index].row.lookups += count.lookups;
    count = {};
  }
  waiting_.clear();
  looked_up_.clear();
  lookups_ = 0;
  version_ = table_->version();
  return !is_missing;
}

// Returns the tokens around a lookup. `at` is the index of its id among all ids looked up since the
// last update.
TableHistory::KeptText TableHistory::text_of(std::size_t at) const {
  auto lookup = waiting_.begin();
  for (; at >= lookup->ids->size(); ++lookup) at -= lookup->ids->size();
  const std::shared_ptr<const Ids>& tokens = lookup->tokens;
  if (tokens == nullptr) return {};
  at /= lookup->ids->size() / tokens->size();
  const std::size_t context = tokens->shape().back();
  const std::size_t in_window = at % context;
  const std::size_t before = std::min(in_window, Text::kBefore);
  const std::size_t after = std::min(Text::kAfter, context - 1 - in_window);
  return {Text({tokens->data() + at - before, before + 1 + after}),
          static_cast<std::uint32_t>(before)};
}

std::vector<TableHistory::Step> TableHistory::steps(std::size_t index) const {
  std::vector<Step> steps;
  for (std::size_t at = index * kMaxSteps; at < (index + 1) * kMaxSteps; ++at) {
    const KeptStep& kept = steps_.at(at);
    if (kept.step == 0) continue;
    const KeptText text = texts_.empty() ? KeptText() : texts_[at];
    steps.push_back(
        {kept.step, kept.lookups, kept.gradient_norm, kept.moved, text.text, text.place});
  }
  std::ranges::sort(steps, {}, [](const Step& step) { return std::pair(-step.moved, step.step); });
  return steps;
}

double TableHistory::moved_untracked(std::int32_t id, std::span<const real> value) const {
  const std::size_t width = value.size();
  if (start_.size() > 0)
    return distance(width, value.data(), start_.data() + static_cast<std::size_t>(id) * width);
  if (has_unknown_decay_ || std::exp(log_kept_) < kMinKept) return std::nan("");
  return std::expm1(0 - log_kept_) * kernels::length(width, value.data());
}

TableHistory::Frame TableHistory::now(std::uint64_t step,
                                      std::span<const std::size_t> indices) const {
  Frame frame{step, std::vector<Row>(indices.size()), std::vector<double>(indices.size())};
  const std::size_t width = table_->shape()[1];
  for (std::size_t first = 0; first < indices.size(); first += kRowsPerRead) {
    const std::span some = indices.subspan(first, std::min(kRowsPerRead, indices.size() - first));
    std::vector<std::int32_t> ids;
    for (const std::size_t index : some) ids.push_back(ids_.at(index));
    const Tensor values = this->values(ids);
    kernels::parallel_for_each(some.size(), width, [&, first](std::size_t i) {
      const real* const value = values.data() + i * width;
      const real* const began = values_.at(some[i] + 1);
      Row& row = frame.rows[first + i] = records_[some[i]].row;
      if (row.steps == 0) return;  // the row's first step was not recorded
      frame.moved[first + i] = distance(width, value, began);
      if (keeps_latest_) settle(row, value, began + width, log_kept_);
    });
  }
  return frame;
}

TableHistory::Frame TableHistory::now(std::uint64_t step) const {
  std::vector<std::size_t> indices(ids_.size());
  std::iota(indices.begin(), indices.end(), 0);
  return now(step, indices);
}

std::vector<std::int32_t> TableHistory::most_frequent(std::size_t count) const {
  std::vector<std::size_t> indices(ids_.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::ranges::stable_sort(indices, std::greater<>(),
                           [&](std::size_t index) { return row(index).lookups; });
  indices.resize(std::min(count, indices.size()));
  std::vector<std::int32_t> ids;
  for (const std::size_t index : indices) ids.push_back(ids_[index]);
  return ids;
}

std::optional<double> TableHistory::kept_without_gradient() const {
  return has_decayed_ ? std::optional(std::exp(log_kept_)) : std::nullopt;
}

// --- Saving and loading -------------------------------------------------------------------------

// Calls visit(name, count, element) for all columns of the state. element(i) returns a reference.
void TableHistory::for_each_column(auto& of, const auto& visit) {
  const auto rows = [&](const char* name, const auto member) {
    visit(
        name, of.ids_.size(), [&](std::size_t i) -> auto& { return of.records_[i].row.*member; });
  };
  rows("lookups", &Row::lookups);
  rows("steps", &Row::steps);
  rows("last", &Row::last);
  rows("squares", &Row::squares);
  rows("largest", &Row::largest);
  rows("path", &Row::path);
  rows("momentum", &Row::momentum);
  rows("decay", &Row::decay);
  rows("log_kept", &Row::log_kept);
  const auto steps = [&](const char* name, const auto member) {
    visit(
        name, of.steps_.size(), [&](std::size_t i) -> auto& { return of.steps_[i].*member; });
  };
  steps("kept.step", &KeptStep::step);
  steps("kept.lookups", &KeptStep::lookups);
  steps("kept.gradient_norm", &KeptStep::gradient_norm);
  steps("kept.moved", &KeptStep::moved);
  const std::size_t texts = of.texts_.size();
  visit(
      "texts.place", texts, [&](std::size_t i) -> auto& { return of.texts_[i].place; });
  visit(
      "texts.size", texts, [&](std::size_t i) -> auto& { return of.texts_[i].text.size_; });
  visit(
      "texts.tokens", texts * Text::kMax, [&](std::size_t i) -> auto& {
        return of.texts_[i / Text::kMax].text.tokens_[i % Text::kMax];
      });
  visit(
      "all.log_kept", 1, [&](std::size_t) -> auto& { return of.log_kept_; });
  visit(
      "all.has_decayed", 1, [&](std::size_t) -> auto& { return of.has_decayed_; });
  visit(
      "all.has_unknown_decay", 1, [&](std::size_t) -> auto& { return of.has_unknown_decay_; });
  visit(
      "all.is_dense", 1, [&](std::size_t) -> auto& { return of.is_dense_; });
}

StateDict TableHistory::state_dict() const {
  StateDict state;
  state.put("kind", static_cast<int>(names_.kind));
  state.put("shape", std::vector<std::int64_t>(table_->shape().begin(), table_->shape().end()));
  state.put("ids", std::vector<std::int64_t>(ids_.begin(), ids_.end()));
  std::vector<std::int64_t> not_followed;
  for (std::size_t row = 0; row < is_not_tracked_.size(); ++row)
    if (is_not_tracked_[row]) not_followed.push_back(static_cast<std::int64_t>(row));
  state.put("not_followed", std::move(not_followed));
  const std::size_t rows = ids_.size(), width = table_->shape()[1];
  for (std::size_t slot = 0; slot < (keeps_latest_ ? 2 : 1); ++slot) {
    Tensor values = empty({rows, width});
    for (std::size_t i = 0; i < rows; ++i)
      std::copy_n(values_.at(i + 1) + slot * width, width, values.data() + i * width);
    state.put(slot == 0 ? "first" : "latest", std::move(values));
  }
  if (start_.size() > 0) state.put("start", start_);
  state.put("has_texts", static_cast<int>(!texts_.empty()));
  for_each_column(*this, [&](const char* name, std::size_t count, const auto& number) {
    constexpr bool is_real = std::is_same_v<decltype(number(0)), const double&>;
    std::vector<std::conditional_t<is_real, double, std::int64_t>> numbers(count);
    for (std::size_t i = 0; i < count; ++i)
      numbers[i] = static_cast<typename decltype(numbers)::value_type>(number(i));
    state.put(name, std::move(numbers));
  });
  if (ngrams_) state.put("ngrams", ngrams_->state_dict());
  return state;
}

void TableHistory::load_state_dict(const StateDict& state) {
  const Shape& shape = table_->shape();
  const auto check = [&](bool holds) {
    check_argument(holds, "RowHistory::load_state_dict: the history of ", table_->name(),
                   " is damaged or belongs to another table, expected a table of shape ",
                   bracketed(shape));
  };
  const std::vector<std::int64_t> saved_shape = state.integers("shape");
  check(ids_.empty() && Shape(saved_shape.begin(), saved_shape.end()) == shape);
  for (const char* name : {"ids", "not_followed"})
    for (const std::int64_t id : state.integers(name)) {
      const auto row = static_cast<std::int32_t>(id);
      check(id >= 0 && std::cmp_less(id, shape[0]) && !was_touched(row));
      track(row);
    }
  const std::size_t rows = ids_.size(), width = shape[1];
  check(rows == state.integers("ids").size());
  keeps_latest_ = state.contains("latest");
  if (keeps_latest_) values_.add_slot();
  for (std::size_t slot = 0; slot < (keeps_latest_ ? 2 : 1); ++slot) {
    const Tensor values = state.tensor(slot == 0 ? "first" : "latest", {rows, width});
    for (std::size_t i = 0; i < rows; ++i)
      std::copy_n(values.data() + i * width, width, values_.at(i + 1) + slot * width);
  }
  if (state.contains("start")) start_ = state.tensor("start", shape);
  if (state.integer("has_texts") != 0) texts_.resize(steps_.size());
  for_each_column(*this, [&](const char* name, std::size_t count, const auto& number) {
    using Number = std::remove_reference_t<decltype(number(0))>;
    const auto load = [&](const auto& numbers) {
      check(numbers.size() == count);
      for (std::size_t i = 0; i < count; ++i) {
        check(std::is_same_v<Number, double> || numbers[i] >= 0);
        number(i) = static_cast<Number>(numbers[i]);
      }
    };
    if constexpr (std::is_same_v<Number, double>)
      load(state.doubles(name));
    else
      load(state.integers(name));
  });
  for (const KeptText& text : texts_)
    check(text.text.size() <= Text::kMax && text.place <= text.text.size());
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i].step > 0)
      records_[i / kMaxSteps].kept[i % kMaxSteps] = static_cast<float>(steps_[i].moved);
  if (ngrams_) ngrams_->load_state_dict(state.part("ngrams"));
  version_ = table_->version();
}

StateDict RowHistory::state_dict() const {
  StateDict state;
  for (const auto& table : tables_)
    check_state(!table->is_between(), "RowHistory::state_dict: step ", begun_,
                " was made, expected a call after after_update(", begun_,
                "); add the history to the run before the callback that saves it");
  if (first_step_) state.put("first_step", *first_step_);
  for (const auto& table : tables_) state.put(table->table().name(), table->state_dict());
  return state;
}

void RowHistory::load_state_dict(const StateDict& state) {
  TableHistories::List loaded;
  std::optional<std::uint64_t> first_step;
  if (state.contains("first_step")) first_step = state.count("first_step");
  std::size_t known = first_step ? 1 : 0;
  const std::vector<Parameter*> own = model_.parameters(), on_tape = model_.parameters_on_tape();
  for (std::size_t i = 0; i < own.size(); ++i) {
    const StateDict part = state.part(own[i]->name());
    if (part.empty()) continue;
    const std::int64_t kind = part.integer("kind");
    check_argument(kind >= 0 && kind <= static_cast<std::int64_t>(RowKind::kNgram),
                   "RowHistory::load_state_dict: the row kind of ", own[i]->name(), " is ", kind,
                   ", expected 0 to ", static_cast<std::int64_t>(RowKind::kNgram));
    insert(loaded, new_history(*on_tape[i], static_cast<RowKind>(kind))).load_state_dict(part);
    known += part.names().size();
  }
  check_argument(known == state.names().size(),
                 "RowHistory::load_state_dict: the state has tables that are not in the model, "
                 "expected a state of this model");
  tables_ = std::move(loaded);
  first_step_ = first_step;
}

// --- All tables ---------------------------------------------------------------------------------

TableHistory& RowHistory::of(Parameter& table) { return history_of(table, RowKind::kRow); }

TableHistory& RowHistory::history_of(Parameter& table, RowKind kind) {
  for (const auto& known : tables_)
    if (&known->table() == &table) return *known;
  return insert(tables_, new_history(table, kind));
}

// Creates the history of a table. If no layer names the rows, their kind is `kind`.
std::shared_ptr<TableHistory> RowHistory::new_history(Parameter& table, RowKind kind) const {
  check_argument(std::ranges::count(model_.parameters_on_tape(), &table) > 0,
                 "RowHistory: ", table.name(), " is not a parameter of the model");
  RowNames names = model_.resolve_row_names(table);
  if (names.kind == RowKind::kRow) names.kind = kind;
  return std::make_shared<TableHistory>(table, std::move(names), TableHistory::kMaxRows,
                                        tables_of_model_);
}

TableHistory& RowHistory::insert(TableHistories::List& list,
                                 std::shared_ptr<TableHistory> added) const {
  const std::vector<Parameter*> all = model_.parameters_on_tape();
  const auto order = [&](const std::shared_ptr<TableHistory>& of) {
    return std::pair(of->kind() != RowKind::kToken,
                     std::ranges::find(all, &of->table()) - all.begin());
  };
  const auto next = std::ranges::upper_bound(list, order(added), {}, order);
  return **list.insert(next, std::move(added));
}

void RowHistory::after_backward(const Tape& tape) {
  const Timer timer(cost_);
  const std::vector<Parameter*> own = model_.parameters_on_tape();
  bool has_own = false;
  for (const Tape::Lookup& lookup : tape.lookups()) {
    if (std::ranges::count(own, lookup.table) == 0) continue;
    has_own = true;
    if (!lookup.table->trainable()) continue;
    history_of(*lookup.table, lookup.kind).look_up(lookup.owner, lookup.tokens);
  }
  if (!has_own && !tape.lookups().empty())
    check_argument(false, "RowHistory: the tape looked up ", tape.lookups().front().table->name(),
                   ", which is not a parameter of the model");
}

void RowHistory::before_update(std::uint64_t step, const Optimizer& optimizer) {
  const Timer timer(cost_);
  begun_ = 0;
  if (!first_step_) first_step_ = step - 1;
  const std::vector<Parameter*> own = model_.parameters(), on_tape = model_.parameters_on_tape();
  for (Parameter* parameter : on_tape)
    if (parameter->gradient().is_rows()) of(*parameter);
  try {
    for (const std::shared_ptr<TableHistory>& table : tables_) {
      const auto i = std::ranges::find(on_tape, &table->table()) - on_tape.begin();
      const Parameter& trained = *own[static_cast<std::size_t>(i)];
      TableHistory::Update update{.moves_all = false};
      if (trained.trainable() && !trained.gradient().is_none())
        update = {.decay = optimizer.decay_without_gradient(trained),
                  .moves_all = optimizer.changes_without_gradient(trained),
                  .is_watched = &trained == &table->table() && trained.gradient().is_rows() &&
                                optimizer.watch_next_step(trained, table)};
      table->before_update(step, update);
    }
  } catch (...) {  // either all tables record a step or none
    for (const std::shared_ptr<TableHistory>& table : tables_) table->cancel_update();
    throw;
  }
  begun_ = step;
}

void RowHistory::before_update(const TrainingRun& run) {
  before_update(run.steps() + 1, run.options().optimizer);
}

void RowHistory::after_step(const TrainingRun& run, const StepResult& result) {
  if (result.loss) after_update(run.steps());
}

void RowHistory::after_update(std::uint64_t step) {
  const Timer timer(cost_);
  check_state(begun_ == step, "RowHistory: before_update(", step,
              ", …) was not called before the step");
  begun_ = 0;
  bool is_recorded = true;
  for (const auto& table : tables_) is_recorded &= table->after_update();
  check_state(is_recorded, "RowHistory: step ", step,
              " was not made with the gradient of before_update()");
}

}  // namespace rowgrad
