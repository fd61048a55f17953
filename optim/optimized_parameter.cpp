#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <ranges>
#include <utility>

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/kernels/parallel.hpp>
#include <rowgrad/core/kernels/simd.hpp>
#include <rowgrad/optim/optimized_parameter.hpp>

namespace rowgrad {
namespace {

// The most runs in a history: kMostRuns or, for large tables, one per kValuesPerRun values, which
// takes a third of the table's memory at most.
constexpr std::size_t kMostRuns = 4096;
constexpr std::size_t kValuesPerRun = 128;

constexpr std::uint64_t kAll = ~std::uint64_t{0};  // after any step
constexpr auto kAnyStep = [](std::uint64_t) { return true; };

}  // namespace

OptimizedParameter::OptimizedParameter(Parameter& parameter, const RuleFacts& rule,
                                       std::unique_ptr<RuleLoops> loops)
    : parameter_(&parameter),
      rule_(rule),
      slots_(slots_of(parameter, {rule.name, parameter.name(), rule.slots})),
      loops_(std::move(loops)) {}

void OptimizedParameter::abandon() noexcept {
  if (!is_deferred()) return;
  is_abandoned_ = true;
  slots_->abandon();
}

void OptimizedParameter::forget() noexcept {
  abandon();
  parameter_ = nullptr;
}

// Calls loop(part), which returns what to count as visited, for parts of a range in parallel.
void OptimizedParameter::for_parts(const RowRange& all, const auto& loop) {
  kernels::parallel_for(all.end, kernels::row_grain(all.rows.width),
                        [&](std::size_t begin, std::size_t end) {
                          rows_visited_ += loop(RowRange{all.rows, all.ids, begin, end});
                        });
}

// Returns those of the rows that deferred steps change and that are of a step that is due.
std::vector<std::int32_t> OptimizedParameter::changed_rows(const auto& ids, const auto& is_due) {
  const RowView rows = slots_->rows();
  const bool moves_all = loops_->history().moves_without_state();
  std::vector<std::int32_t> changed;
  for (const std::int32_t id : ids) {
    const auto row = static_cast<std::size_t>(id);
    if ((moves_all || rows.has_record(row)) && is_due(*rows.row<1>(row).step))
      changed.push_back(id);
  }
  return changed;
}

void OptimizedParameter::bring_up_to_date(std::span<const std::int32_t> ids, std::uint64_t since) {
  slots_->prepare_write(ids);
  for_parts({slots_->rows(), ids.data(), 0, ids.size()},
            [&](const RowRange& part) { return loops_->apply(part, since); });
}

// --- A step -------------------------------------------------------------------------------------

StepPlan OptimizedParameter::plan() const {
  const Gradient& gradient = parameter_->gradient();
  if (!gradient.is_rows())
    parameter_->check_in_memory(rule_.name, ": the gradient of ", parameter_->name(), " is dense");
  StepPlan plan =
      loops_->plan({.step = steps_ + 1, .first_of_state = slots_->lacks(loops_->needs())});
  plan.defers = plan.defers && gradient.is_rows();
  if (!gradient.is_rows()) return plan;
  if (!is_deferred())
    parameter_->source().check_up_to_date();
  else if (!plan.continues)
    parameter_->check_in_memory(rule_.name, ": these options do not continue those before");
  slots_->fault_in(gradient.rows().indices(), is_deferred() ? loops_->history().steps() : 0);
  return plan;
}

void OptimizedParameter::step(const StepPlan& plan) {
  const Gradient& gradient = parameter_->gradient();
  if (gradient.is_dense()) {
    parameter_->apply_deferred();
    slots_->make_all();
  }
  slots_->create(plan.slots);
  ++steps_;
  if (gradient.is_dense())
    step_dense(gradient.dense(), plan);
  else
    step_rows(gradient.rows(), plan);
}

void OptimizedParameter::step_dense(const Tensor& gradient, const StepPlan& plan) {
  parameter_->note_change();
  const RowView values = slots_->rows();
  kernels::parallel_for(
      gradient.size(), kernels::kGrainNumbers / 4, [&](std::size_t begin, std::size_t end) {
        const RowView row{.first = values.at<1 + kMaxSlots>(begin), .width = end - begin};
        loops_->step({row, nullptr, 0, 1}, gradient.data() + begin, plan, 0);
      });
}

void OptimizedParameter::step_rows(const RowGradient& gradient, const StepPlan& plan) {
  const std::span<const std::int32_t> ids = gradient.indices();
  const real* const values = gradient.values().data();
  const bool may_be_stale = plan.defers || is_deferred();
  const StepRuns& history = loops_->history();
  if (!is_deferred() || (plan.defers && !plan.continues) ||
      (parameter_->is_in_memory() && history.runs().size() >= 2 * half_history())) {
    parameter_->apply_deferred();  // or those of another optimizer
    loops_->forget(history.runs().size());
    if (may_be_stale) slots_->reset_steps();
  }
  slots_->prepare_write(ids);
  // Nothing is deferred meanwhile: if memory runs out, rows are of a step that the history lacks.
  parameter_->set_deferred(nullptr);
  parameter_->note_change();
  RowView rows = slots_->rows();
  if (!may_be_stale) rows.steps = nullptr;
  if (plan.defers) slots_->note_deferred();
  const std::uint64_t after = history.steps() + (plan.defers ? 1 : 0);
  for_parts({rows, ids.data(), 0, ids.size()},
            [&](const RowRange& part) { return loops_->step(part, values, plan, after); });
  const std::size_t runs = history.runs().size();
  if (plan.defers) loops_->append(plan.rule, 1);
  if (may_be_stale) parameter_->set_deferred(shared_from_this());
  if (history.runs().size() > runs) shorten_history();
}

// --- Reading and applying -----------------------------------------------------------------------

void OptimizedParameter::apply(std::span<const std::int32_t> ids) {
  slots_->fault_in(ids, loops_->history().steps());
  bring_up_to_date(changed_rows(ids, kAnyStep), kAll);
}

// No row stays behind, so rows whose slots do not change need no records.
void OptimizedParameter::apply_all() {
  const StepRuns& history = loops_->history();
  if (is_abandoned_ ? history.has_replay(0) : history.makes_state()) slots_->make_all();
  for_parts(all_of(slots_->rows()), [&](const RowRange& part) {
    return is_abandoned_ ? loops_->copy(part, nullptr, nullptr) : loops_->apply(part, kAll);
  });
  loops_->forget(loops_->history().runs().size());
}

void OptimizedParameter::gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) {
  const StepRuns& history = loops_->history();
  slots_->fault_in(ids, history.steps());
  if (history.has_replay(0) && parameter_->is_in_memory()) {  // in a file, copies are replayed
    // Each row only once, however often its id occurs.
    std::vector<std::int32_t> due =
        changed_rows(ids, [&](std::uint64_t step) { return history.has_replay(step); });
    std::ranges::sort(due);
    due.erase(std::unique(due.begin(), due.end()), due.end());
    bring_up_to_date(due, 0);
    rows_visited_ += due.size();
  }
  for_parts({slots_->rows(), ids.data(), 0, ids.size()},
            [&](const RowRange& part) { return loops_->copy(part, out, added); });
}

void OptimizedParameter::gather_all(real* out) {
  if (loops_->history().has_replay(0)) slots_->make_all();
  for_parts(all_of(slots_->rows()),
            [&](const RowRange& part) { return loops_->copy(part, out, nullptr); });
}

// --- Saving and loading -------------------------------------------------------------------------

namespace {

constexpr const char* kSteps = "step";
constexpr const char* kDeferred = "lazy";
constexpr const char* kChecksum = "checksum";

// Saved instead of a state that the options need since the last step (set_options).
constexpr const char* kNotBegun = "not begun";

bool is_not_begun(const Checkpoint& state, const std::string& name) {
  if (!state.contains(name)) return false;
  const auto* text = std::get_if<std::string>(&state.at(name));
  return text != nullptr && *text == kNotBegun;
}

// With the bits of a number, as those of the other library are rounded when they are read.
std::vector<std::int64_t> checksum_of(const Tensor& values) {
  Checksum sum;
  sum.add_bytes(std::as_bytes(std::span(values.data(), values.size())));
  return {8 * sizeof(real), static_cast<std::int64_t>(sum.value())};
}

}  // namespace

// Rows are saved as they are stored, stale, with the deferred steps, so that a resumed run has the
// same bits.
Checkpoint OptimizedParameter::state_dict() const {
  Checkpoint state;
  slots_->save(state);
  parameter_->source().place.mark(state);
  state.put(kSteps, steps_);
  const SlotStore::Needs needs = loops_->needs();
  for (std::size_t i = 0; i < rule_.slots.size() && steps_ > 0; ++i)
    if (const std::string name(rule_.slots[i]); needs.uses[i] && !has_rows(state, name))
      state.put(name, kNotBegun);
  if (is_deferred()) state.put(kDeferred, deferred_state());
  return state;
}

Checkpoint OptimizedParameter::deferred_state() const {
  const StepRuns& history = loops_->history();
  std::vector<std::int64_t> steps;
  Tensor rules = empty({history.runs().size(), rule_.members});
  for (std::size_t run = 0; run < history.runs().size(); ++run) {
    steps.push_back(static_cast<std::int64_t>(history.runs()[run].end - history.begin_of(run)));
    std::copy_n(loops_->members(run).begin(), rule_.members, rules.data() + run * rule_.members);
  }
  Checkpoint state;
  slots_->save_rows(state);
  const RowSource::Place& place = parameter_->source().place;
  place.mark(state);
  state.put("steps", std::move(steps));
  state.put("rules", std::move(rules));
  if (!place.is_split && parameter_->is_in_memory())
    state.put(kChecksum, checksum_of(parameter_->copy()));
  return state;
}

std::vector<std::string> OptimizedParameter::names(const RuleFacts& rule) {
  std::vector<std::string> names = saved_names(rule.slots);
  names.push_back(kSteps);
  for (const char* name : {"values", "values.rows", "values.values", "at", "at.rows", "at.values",
                           "steps", "rules", "file", kChecksum})
    names.push_back(concat(kDeferred, '.', name));
  return names;
}

auto OptimizedParameter::loaded(const Checkpoint& state, bool values_follow) const
    -> std::shared_ptr<OptimizedParameter> {
  auto loaded = std::make_shared<OptimizedParameter>(*parameter_, rule_, loops_->fresh());
  loaded->rows_visited_ = rows_visited();
  loaded->steps_ = state.count(kSteps);
  if (loaded->steps_ == 0) return loaded;
  const SlotStore::Needs needs = loops_->needs();
  std::array<bool, kMaxSlots> saved{};
  for (std::size_t i = 0; i < rule_.slots.size(); ++i) {
    const std::string name(rule_.slots[i]);
    saved[i] = has_rows(state, name) && !is_not_begun(state, name);
    check_argument(
        !needs.uses[i] || has_rows(state, name), rule_.name, "::load_state_dict: '",
        parameter_->name(), '.', name,
        "' is missing, but the options of the optimizer need it; make the optimizer "
        "with the options of the saved one, and change them after loading (set_options)");
  }
  loaded->slots_->load(state, saved, values_follow);
  const Checkpoint deferred = state.part(kDeferred);
  if (!deferred.empty()) loaded->load_deferred(deferred, values_follow);
  return loaded;
}

void OptimizedParameter::load_deferred(const Checkpoint& state, bool values_follow) {
  check_argument(parameter_->shape().size() == 2, rule_.name, "::load_state_dict: '",
                 parameter_->name(), "' is no table, but its state has lazy rows");
  const auto check = [&](bool fits, const char* what, const auto&... text) {
    check_argument(fits, rule_.name, "::load_state_dict: '", parameter_->name(), ".lazy.", what,
                   "' has ", text...);
  };
  const std::vector<std::int64_t> steps = state.integers("steps");
  const Tensor rules = state.tensor("rules", {steps.size(), rule_.members});
  for (const real member : rules) check(std::isfinite(member), "rules", member);
  for (std::size_t run = 0; run < steps.size(); ++run) {
    const std::uint64_t most = steps_ - loops_->history().steps();
    const auto count = static_cast<std::uint64_t>(steps[run]);
    check(steps[run] >= 1 && count <= most, "steps", steps[run], ", expected a number from 1 to ",
          most);
    RuleMembers members{};
    std::copy_n(rules.data() + run * rule_.members, rule_.members, members.begin());
    loops_->append(members, count);
  }
  slots_->load_rows(state, loops_->history().steps(), values_follow);
  is_loaded_ = true;
  if (values_follow || !parameter_->is_in_memory()) return;

  const Tensor present = parameter_->copy();
  if (state.contains(kChecksum)) {  // not in states of 0.2.0
    const std::vector<std::int64_t> saved = state.integers(kChecksum), here = checksum_of(present);
    check(saved.size() == here.size(), kChecksum, saved.size(), " numbers, expected ", here.size());
    check_argument(saved[0] != here[0] || saved == here, rule_.name, "::load_state_dict: '",
                   parameter_->name(), "' has other values than when the state was saved: load ",
                   "those of the model first");
  }
  Tensor values = empty(parameter_->shape());
  gather_all(values.data());
  const std::size_t width = parameter_->shape()[1];
  std::vector<std::int32_t> others;
  for (std::size_t at = 0; at < values.size(); at += width)
    if (std::memcmp(values.data() + at, present.data() + at, width * sizeof(real)) != 0)
      others.push_back(static_cast<std::int32_t>(at / width));
  bring_up_to_date(changed_rows(others, kAnyStep), kAll);
  const RowView rows = slots_->rows();
  for (const std::int32_t row : others) {
    const std::size_t at = static_cast<std::size_t>(row) * width;
    std::copy_n(present.data() + at, width, rows.first[0] + at);
  }
}

void OptimizedParameter::commit() {
  if (!std::exchange(is_loaded_, false)) return;
  parameter_->set_deferred(nullptr);  // its updates are part of the values that were compared
  slots_->commit();
  parameter_->set_deferred(shared_from_this());
}

// --- A history that becomes long
// ------------------------------------------------------------------

std::size_t OptimizedParameter::half_history() const {  // a power of two, on any number of ranks
  const std::size_t values = parameter_->source().place.rows * parameter_->shape()[1];
  return std::bit_floor(std::max(kMostRuns, values / kValuesPerRun)) / 2;
}

// Once the history is half full, every further run brings its share of the rows that are of a step
// of the first half up to date. When it is full, no such row is left, and the first half is
// dropped.
void OptimizedParameter::shorten_history() {
  const std::size_t half = half_history();
  const RowSource::Place& place = parameter_->source().place;
  const std::vector<StepRuns::Run>& runs = loops_->history().runs();
  if (runs.size() <= half || !parameter_->is_in_memory()) return;
  const std::uint64_t since = runs[half - 1].end;
  const std::size_t count = parameter_->shape()[0];
  const auto bring_late_rows = [&](std::size_t begin, std::size_t end) {
    const auto rows =
        std::views::iota(static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end));
    bring_up_to_date(changed_rows(rows, [&](std::uint64_t step) { return step < since; }), since);
  };
  const std::size_t share = runs.size() - half;
  const auto row_at = [&](std::size_t shares) {
    return std::clamp(place.rows * shares / half, place.first, place.first + count) - place.first;
  };
  bring_late_rows(row_at(share - 1), row_at(share));
  if (share < half) return;
  bring_late_rows(0, count);  // rows that were loaded after their turn
  loops_->forget(half);
}

// --- What a step does by itself
// -------------------------------------------------------------------

std::optional<double> OptimizedParameter::decay_without_gradient() const {
  const StepPlan plan = loops_->fresh()->plan({.step = steps_ + 1, .first_of_state = false});
  const Deferral deferral = loops_->deferral(plan);
  if (deferral == Deferral::kNothing) return 0;
  std::vector<double> one(1 + rule_.slots.size(), 0.0);
  one[0] = 1;
  loops_->step_without_gradient(plan, one.data());
  if (one[0] == 1) return 0;
  // Decay that goes through a state, such as momentum, builds up: no share of each step.
  const bool builds_up = std::any_of(one.begin() + 1, one.end(), [](double x) { return x != 0; });
  return builds_up || deferral == Deferral::kReplay ? std::nullopt : std::optional(1 - one[0]);
}

}  // namespace rowgrad
