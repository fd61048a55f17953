#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <rowgrad/core/kernels/parallel.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/optim/pending_rows.hpp>

namespace rowgrad {
namespace {

// The most runs in a history: kMostRuns or, for large tables, one per kValuesPerRun values, which
// takes a third of the table's memory at most.
constexpr std::size_t kMostRuns = 4096;
constexpr std::size_t kValuesPerRun = 128;

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();  // after any step

}  // namespace

PendingRows::~PendingRows() {
  if (any()) parameter_->apply_pending();
}

RowRange PendingRows::range(const RowView& rows, std::span<const std::int32_t> ids) const {
  return {rows, &history_, ids.data(), 0, ids.size()};
}

// Calls loop(range), which returns what to count as visited, for parts of a range in parallel.
void PendingRows::for_ranges(const RowRange& all, const auto& loop) {
  kernels::parallel_for(
      all.end, kernels::row_grain(all.rows.width), [&](std::size_t begin, std::size_t end) {
        rows_visited_ += loop(RowRange{all.rows, all.history, all.ids, begin, end});
      });
}

// Whether steps may be replayed on the stored rows when these are read.
bool PendingRows::changes_when_read() const { return parameter_->stored().allows_passes(); }

// How many rows a pass over all rows has: none, if they are in a file.
std::size_t PendingRows::rows_in_pass() const {
  return changes_when_read() ? parameter_->shape()[0] : 0;
}

// --- Steps --------------------------------------------------------------------------------------

std::size_t PendingRows::half_history() const {  // a power of two
  return std::bit_floor(std::max(kMostRuns, parameter_->size() / kValuesPerRun)) / 2;
}

bool PendingRows::breaks_history(const real* members) const {
  return !history_.runs().empty() &&
         !rule_.continues(members, history_.members(history_.runs().size() - 1));
}

void PendingRows::check_step(const real* members) const {
  if (!any())
    parameter_->check_none_pending();
  else if (breaks_history(members))
    parameter_->check_whole(rule_.name, ": these options do not continue those before");
  states_.bring_in(parameter_->gradient().rows().indices(), any() ? history_.steps() : 0);
}

void PendingRows::step(const real* members, bool postpones) {
  const RowGradient& gradient = parameter_->gradient().rows();
  if (any() && rows_in_pass() > 0 && history_.runs().size() >= 2 * half_history())
    parameter_->apply_pending();
  if (!any()) {
    states_.begin_steps();
    history_.clear();
  }
  states_.begin_change(gradient.indices());
  history_.reserve_step();  // now, as no row may be of a step that the history lacks
  parameter_->set_pending(this);
  parameter_->note_change();
  const RowView rows = states_.view();
  if (postpones) parameter_->stored().set_pending();
  if (postpones && breaks_history(members)) apply_rows(all_rows(rows));
  const std::uint64_t after = history_.steps() + (postpones ? 1 : 0);
  for_ranges(range(rows, gradient.indices()), [&](const RowRange& part) {
    return rule_.catch_up_and_step_rows(members, part, gradient.values().data(), after);
  });
  if (!postpones) return;
  const std::size_t runs = history_.runs().size();
  history_.append(members);
  if (history_.runs().size() > runs) shorten_history(rows);
}

// Once the history is half full, every further run brings its share of the rows that missed steps
// of the first half up to date. When it is full, no such row is left, and the first half is
// dropped.
void PendingRows::shorten_history(const RowView& rows) {
  const std::size_t half = half_history(), count = rows_in_pass();
  if (history_.runs().size() <= half || count == 0) return;
  const std::uint64_t since = history_.runs()[half - 1].end;
  const auto apply = [&](std::size_t begin, std::size_t end) {
    rows_visited_ += rule_.apply_rows({rows, &history_, nullptr, begin, end}, since);
  };
  const std::size_t share = history_.runs().size() - half;  // 1 … half
  apply(count * (share - 1) / half, count * share / half);
  if (share < half) return;
  for (std::size_t row = 0; row < count; ++row)
    if (*rows.row<1>(row).step < since) apply(row, row + 1);  // loaded after its turn
  history_.forget(half);
}

// --- Reading and applying -----------------------------------------------------------------------

RowRange PendingRows::all_rows(const RowView& rows) const {
  return {rows, &history_, nullptr, 0, rows_in_pass()};
}

void PendingRows::apply_rows(const RowRange& rows) {
  for_ranges(rows, [&](const RowRange& part) { return rule_.apply_rows(part, kAll); });
}

void PendingRows::apply(std::span<const std::int32_t> ids) {
  states_.bring_in(ids, history_.steps());
  states_.begin_change(ids);
  const RowView rows = states_.view();
  apply_rows(range(rows, ids));
}

void PendingRows::apply_all() {
  const RowView rows = states_.view();
  apply_rows(all_rows(rows));
  history_.clear();
}

void PendingRows::read(std::span<const std::int32_t> ids, real* out) {
  states_.bring_in(ids, history_.steps());
  const RowView rows = states_.view();
  if (history_.has_replay(0) && changes_when_read()) {
    // Each row only once, however often its id occurs.
    std::vector<std::int32_t> due;
    for (const std::int32_t id : ids)
      if (history_.has_replay(*rows.row<1>(static_cast<std::size_t>(id)).step)) due.push_back(id);
    std::ranges::sort(due);
    due.erase(std::unique(due.begin(), due.end()), due.end());
    for_ranges(range(rows, due), [&](const RowRange& part) { return rule_.apply_rows(part, 0); });
    rows_visited_ += due.size();
  }
  for_ranges(range(rows, ids), [&](const RowRange& part) { return rule_.copy_rows(part, out); });
}

// What becomes of a row of zeros, with states of zeros, in all steps so far; empty if that takes
// replays, or no row has missed them from the first on.
std::vector<real> PendingRows::untouched_row(const RowView& rows) const {
  const auto is_first = [&](std::size_t row) { return *rows.row<1>(row).step == 0; };
  std::size_t row = 0;
  while (row < rows_in_pass() && !is_first(row)) ++row;
  if (history_.has_replay(0) || row == rows_in_pass()) return {};
  RowCopy memory{.values = std::vector<real>(rows.first.size() * rows.width)};
  RowView zeros{.width = rows.width, .steps = &memory.step};
  for (std::size_t k = 0; k < rows.first.size(); ++k)
    if (rows.first[k] != nullptr) zeros.first[k] = memory.values.data() + k * rows.width;
  std::vector<real> result(rows.width);
  rule_.copy_rows({zeros, &history_, nullptr, 0, 1}, result.data());
  return result;
}

// Most rows of a large table may never have been touched. If they are zeros, what they became is
// computed only once.
void PendingRows::read_all(real* out) {
  const RowView rows = states_.view();
  const std::size_t width = rows.width;
  const std::vector<real> untouched = untouched_row(rows);
  const std::vector<real> zeros(width);
  const auto is_untouched = [&](std::size_t i) {
    const Row<1 + kMostStates> row = rows.row<1 + kMostStates>(i);
    return *row.step == 0 && !untouched.empty() &&
           std::ranges::all_of(row.arrays, [&](const real* values) {
             return values == nullptr ||
                    std::memcmp(values, zeros.data(), width * sizeof(real)) == 0;
           });
  };
  for_ranges(all_rows(rows), [&](RowRange part) {
    std::uint64_t visited = 0;
    for (const std::size_t end = part.end; part.begin < end; ++part.begin) {
      for (part.end = part.begin; part.end < end && !is_untouched(part.end);) ++part.end;
      visited += rule_.copy_rows(part, out);
      part.begin = part.end;
      if (part.begin == end) break;
      std::ranges::copy(untouched, out + part.begin * width);
      ++visited;
    }
    return visited;
  });
}

// --- Saving and loading -------------------------------------------------------------------------

Checkpoint PendingRows::state_dict() const {
  const auto& runs = history_.runs();
  std::vector<std::int64_t> steps;
  for (std::size_t run = 0; run < runs.size(); ++run)
    steps.push_back(static_cast<std::int64_t>(runs[run].end - (run == 0 ? 0 : runs[run - 1].end)));
  Tensor rules = empty({runs.size(), rule_.members});
  if (!runs.empty()) std::copy_n(history_.members(0), rules.size(), rules.data());
  Checkpoint state;
  states_.save_rows(state);
  state.put("steps", std::move(steps));
  state.put("rules", std::move(rules));
  return state;
}

void PendingRows::load(const Checkpoint& state, std::uint64_t most_steps, bool values_follow) {
  const std::string& name = parameter_->name();
  check_argument(parameter_->shape().size() == 2, rule_.name, "::load_state_dict: '", name,
                 "' is no table, but its state has lazy rows");
  const auto steps = state.integers("steps");
  const Tensor rules = state.tensor("rules", {steps.size(), rule_.members});
  for (const real member : rules)
    check_argument(std::isfinite(member), rule_.name, "::load_state_dict: '", name,
                   ".lazy.rules' has ", member);
  for (std::size_t run = 0; run < steps.size(); ++run) {
    const std::uint64_t most = most_steps - history_.steps();
    check_argument(steps[run] >= 1 && static_cast<std::uint64_t>(steps[run]) <= most, rule_.name,
                   "::load_state_dict: '", name, ".lazy.steps' has ", steps[run],
                   ", expected a number from 1 to ", most);
    history_.append(rules.data() + run * rule_.members, static_cast<std::uint64_t>(steps[run]));
  }
  states_.load_rows(state, history_.steps(), values_follow);
  loaded_ = true;
  const RowView rows = states_.view();
  if (values_follow || all_rows(rows).end == 0) return;

  Tensor values = empty(parameter_->shape());
  read_all(values.data());
  const Tensor present = parameter_->copy();
  const std::size_t width = rows.width;
  for_ranges(all_rows(rows), [&](const RowRange& part) {
    for (std::size_t row = part.begin; row < part.end; ++row) {
      const real* kept = present.data() + row * width;
      if (std::memcmp(values.data() + row * width, kept, width * sizeof(real)) == 0) continue;
      rule_.apply_rows({rows, &history_, nullptr, row, row + 1}, kAll);
      std::copy_n(kept, width, rows.row<1>(row).arrays[0]);
    }
    return part.end - part.begin;
  });
}

void PendingRows::take_over() {
  if (!std::exchange(loaded_, false)) return;
  parameter_->set_pending(nullptr);  // what is pending is part of the values that were compared
  states_.take_over();
  parameter_->set_pending(this);
}

}  // namespace rowgrad
