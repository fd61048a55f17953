#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/kernels/parallel.hpp>
#include <rowgrad/core/kernels/simd.hpp>
#include <rowgrad/optim/optimized_parameter.hpp>

namespace rowgrad {
namespace {

// A history has at most kMaxRuns runs or, for large tables, one for each kValuesPerRun values. It
// takes at most a third of a large table's memory.
constexpr std::size_t kMaxRuns = 4096;
constexpr std::size_t kValuesPerRun = 128;

constexpr std::uint64_t kReplayOnly = 0;  // as closed_before: apply no closed forms
constexpr std::uint64_t kAllSteps = ~std::uint64_t{0};
constexpr auto kAnyStep = [](std::uint64_t) { return true; };

}  // namespace

OptimizedParameter::OptimizedParameter(Parameter& parameter, const RuleFacts& rule,
                                       std::unique_ptr<RuleLoops> loops)
    : parameter_(&parameter),
      rule_(rule),
      slots_(slots_of(parameter, {rule.name, parameter.name(), rule.slots})),
      loops_(std::move(loops)) {}

void OptimizedParameter::abandon() noexcept {
  if (!has_deferred()) return;
  is_abandoned_ = true;
  slots_->abandon();
}

void OptimizedParameter::forget() noexcept {
  abandon();
  parameter_ = nullptr;
  slots_ = nullptr;
}

// Calls loop(part) for parts of a range in parallel, and adds the results to rows_visited_.
void OptimizedParameter::for_parts(const RowRange& all, const auto& loop) {
  kernels::parallel_for(all.end, kernels::row_grain(all.rows.width),
                        [&](std::size_t begin, std::size_t end) {
                          rows_visited_ += loop(RowRange{all.rows, all.ids, begin, end});
                        });
}

// Returns the rows that deferred steps change and for which is_due(step of the row) is true.
std::vector<std::int32_t> OptimizedParameter::changed_rows(std::span<const std::int32_t> ids,
                                                           const auto& is_due) {
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

void OptimizedParameter::bring_up_to_date(std::span<const std::int32_t> ids,
                                          std::uint64_t closed_before) {
  slots_->prepare_write(ids);
  for_parts({slots_->rows(), ids.data(), 0, ids.size()},
            [&](const RowRange& part) { return loops_->apply(part, closed_before); });
}

// --- A step -------------------------------------------------------------------------------------

void OptimizedParameter::watch_next_step(const std::shared_ptr<RowWatcher>& watcher) {
  std::erase_if(watchers_, [&](const std::weak_ptr<RowWatcher>& known) {
    return known.expired() || known.lock() == watcher;
  });
  watchers_.push_back(watcher);
}

StepPlan OptimizedParameter::plan() const {
  const Gradient& gradient = parameter_->gradient();
  if (!gradient.is_rows())
    parameter_->check_in_memory(rule_.name, ": the gradient of ", parameter_->name(), " is dense");
  StepPlan plan =
      loops_->plan({.step = steps_ + 1, .is_first_use = slots_->lacks(loops_->needs())});
  plan.defers = plan.defers && gradient.is_rows();
  if (!gradient.is_rows()) return plan;
  if (!has_deferred())
    parameter_->source().check_up_to_date();
  else if (plan.defers && !plan.continues)
    parameter_->check_in_memory(rule_.name, ": the new options need all rows up to date");
  slots_->fault_in(gradient.rows().indices(), has_deferred() ? loops_->history().steps() : 0);
  return plan;
}

void OptimizedParameter::step(const StepPlan& plan) {
  check_state(plan.step == steps_ + 1, rule_.name, ": the plan is for step ", plan.step,
              ", expected step ", steps_ + 1);
  const Gradient& gradient = parameter_->gradient();
  std::vector<std::shared_ptr<RowWatcher>> watchers;
  for (const std::weak_ptr<RowWatcher>& watcher : std::exchange(watchers_, {}))
    if (auto alive = watcher.lock();
        alive != nullptr && gradient.is_rows() && alive->begin_step(gradient.rows()))
      watchers.push_back(std::move(alive));
  if (gradient.is_dense()) {
    parameter_->apply_deferred();
    slots_->make_all();
  }
  slots_->create(plan.slots);
  ++steps_;
  if (gradient.is_dense())
    step_dense(gradient.dense(), plan);
  else
    step_rows(gradient.rows(), plan, watchers);
}

void OptimizedParameter::step_dense(const Tensor& gradient, const StepPlan& plan) {
  parameter_->increment_version();
  const RowView values = slots_->rows();
  kernels::parallel_for(
      gradient.size(), kernels::kGrainElements / 4, [&](std::size_t begin, std::size_t end) {
        // Treats a range of values as one row.
        const RowView row{.first = values.at<1 + kMaxSlots>(begin), .width = end - begin};
        loops_->step({row, nullptr, 0, 1}, gradient.data() + begin, plan, 0, {});
      });
}

void OptimizedParameter::step_rows(const RowGradient& gradient, const StepPlan& plan,
                                   RowWatchers watchers) {
  const std::span<const std::int32_t> ids = gradient.indices();
  const real* const values = gradient.values().data();
  const StepRuns& history = loops_->history();
  // Begin a new history if no steps are deferred, if steps with the new options cannot be combined
  // with earlier steps, or if the history was not shortened in time.
  if (!has_deferred() || (plan.defers && !plan.continues) || history_is_full()) {
    parameter_->apply_deferred();
    loops_->clear();
    if (plan.defers) slots_->reset_steps();
  }
  const bool may_be_stale = plan.defers || has_deferred();
  slots_->prepare_write(ids);
  // If the loop below throws, some rows are at a step that the history lacks.
  parameter_->discard_deferred();
  parameter_->increment_version();
  RowView rows = slots_->rows();
  if (!may_be_stale) rows.steps = nullptr;
  if (plan.defers) slots_->note_deferred();
  const std::uint64_t after = history.steps() + (plan.defers ? 1 : 0);
  for_parts({rows, ids.data(), 0, ids.size()}, [&](const RowRange& part) {
    return loops_->step(part, values, plan, after, watchers);
  });
  const std::size_t runs = history.runs().size();
  if (plan.defers) loops_->append(plan.rule, 1);
  if (may_be_stale) parameter_->set_deferred(shared_from_this());
  if (history.runs().size() > runs) shorten_history();
}

// --- Reading and applying -----------------------------------------------------------------------

void OptimizedParameter::apply(std::span<const std::int32_t> ids) {
  slots_->fault_in(ids, loops_->history().steps());
  bring_up_to_date(changed_rows(ids, kAnyStep), kAllSteps);
}

// No row stays stale, so rows whose slots do not change need no records. The slots of a destroyed
// optimizer are not needed any more.
void OptimizedParameter::apply_all() {
  const StepRuns& history = loops_->history();
  if (is_abandoned_ ? history.has_replay(0) : history.makes_state()) slots_->make_all();
  for_parts(all_of(slots_->rows()),
            [&](const RowRange& part) { return loops_->apply(part, kAllSteps); });
  loops_->clear();
}

void OptimizedParameter::gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) {
  const StepRuns& history = loops_->history();
  slots_->fault_in(ids, history.steps());
  if (history.has_replay(0) && parameter_->is_in_memory()) {  // in a file, copy() replays
    // Replay each row only once, even if its id occurs several times.
    std::vector<std::int32_t> due =
        changed_rows(ids, [&](std::uint64_t step) { return history.has_replay(step); });
    std::ranges::sort(due);
    due.erase(std::unique(due.begin(), due.end()), due.end());
    bring_up_to_date(due, kReplayOnly);
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

// --- A long history ------------------------------------------------------------------------------

std::size_t OptimizedParameter::half_history() const {  // a power of two, equal for all shards
  const std::size_t values = parameter_->source().part().rows * parameter_->shape()[1];
  return std::bit_floor(std::max(kMaxRuns, values / kValuesPerRun)) / 2;
}

bool OptimizedParameter::history_is_full() const {
  return parameter_->is_in_memory() && loops_->history().runs().size() >= 2 * half_history();
}

// Brings up to date the rows that are at a step of the first half of the history. Once the history
// is half full, each new run checks a share of all rows. When the history is full, no row needs the
// first half, which is dropped.
void OptimizedParameter::shorten_history() {
  const std::size_t half = half_history();
  const RowSource::Part& part = parameter_->source().part();
  const std::vector<StepRuns::Run>& runs = loops_->history().runs();
  if (runs.size() <= half || !parameter_->is_in_memory()) return;
  const std::uint64_t since = runs[half - 1].end;
  const std::size_t count = parameter_->shape()[0];
  const auto bring_stale_rows = [&](std::size_t begin, std::size_t end) {
    std::vector<std::int32_t> rows(end - begin);
    std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(begin));
    bring_up_to_date(changed_rows(rows, [&](std::uint64_t step) { return step < since; }), since);
  };
  const std::size_t share = runs.size() - half;
  const auto row_at = [&](std::size_t shares) {
    return std::clamp(part.rows * shares / half, part.first, part.first + count) - part.first;
  };
  bring_stale_rows(row_at(share - 1), row_at(share));
  if (share < half) return;
  bring_stale_rows(0, count);  // rows that were loaded after their share was processed
  loops_->drop_runs(half);
}

}  // namespace rowgrad
