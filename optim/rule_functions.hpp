#pragma once

// What the engine of optimizers calls of a rule. These functions alone know the rule's type: loops
// over values or rows, and questions about a step. Everything else is compiled once.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <rowgrad/core/autograd/row_store.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/optim/missed_steps.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// Rows to work on, on this thread: rows ids[begin] … ids[end − 1], or begin … end − 1 without ids.
struct RowRange {
  const RowView& rows;         // where the rows of the table are
  const StepHistory* history;  // the steps that rows may have missed
  const std::int32_t* ids;     // row numbers; null for all rows from begin to end
  std::size_t begin, end;      // places in ids, or row numbers if that is null

  std::size_t operator[](std::size_t i) const {  // the row at place i
    return ids != nullptr ? static_cast<std::size_t>(ids[i]) : i;
  }
};

/// The members of a rule, in their order, and zeros after them.
using RuleMembers = std::array<real, 32>;

/// A rule is passed as its members.
struct RuleFunctions {
  std::string_view name;                     // the rule's name, Rule::kName
  std::span<const std::string_view> states;  // the names of its states, Rule::kStates
  std::size_t members;                       // number of coefficients
  std::array<bool, kMostStates> always;      // the states that the default options use

  Idle (*idle)(const real* rule);                           // Rule::idle()
  bool (*continues)(const real* rule, const real* before);  // Rule::continues()
  /// A step without gradient of values[0], with the states that follow.
  void (*idle_step)(const real* rule, double* values);

  /// A step of `count` values, arrays[0], with the states that follow (null if not in use).
  void (*step_values)(const real* rule, std::span<real* const> arrays, std::size_t count,
                      const real* gradients);
  /// A step of rows that missed none.
  void (*step_rows)(const real* rule, const RowRange& range, const real* gradients);

  // Those below return how many rows they changed or copied, plus one for each replayed step.

  /// The steps that rows missed, and then a step; from then on they are of step `after`.
  std::uint64_t (*catch_up_and_step_rows)(const real* rule, const RowRange& range,
                                          const real* gradients, std::uint64_t after);
  /// The steps that rows missed: first until all that remain have a closed form, and then all, if
  /// the row is still of a step before `since`.
  std::uint64_t (*apply_rows)(const RowRange& range, std::uint64_t since);
  /// out[i] = row i of the range, with the steps that it missed; stored rows keep their bits. Steps
  /// without closed form must have been replayed where rows may be changed when they are read
  /// (RowView::copied_by).
  std::uint64_t (*copy_rows)(const RowRange& range, real* out);
};

// --- How they are made --------------------------------------------------------------------------

template <class Rule>  // makes RuleFunctions of a rule
struct RuleLoops {
  using Simd = kernels::Simd;
  static constexpr std::size_t kArrays = kArraysOf<Rule>;
  using Vectors = RuleVectors<Rule>;
  using RowOf = Row<kArrays>;

  static void step_values(const real* members, std::span<real* const> arrays, std::size_t count,
                          const real* gradients) {
    const Rule rule = rule_of<Rule>(members);
    RulePointers<Rule> pointers;
    std::copy_n(arrays.begin(), kArrays, pointers.begin());
    change_values<Rule>(count, pointers, gradients,
                        [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
  }

  // Row i of the range, if it has so many, with its states.
  static void prefetch(const RowRange& range, std::size_t i) {
    if (i >= range.end) return;
    for (const real* array : range.rows.arrays<kArrays>(range[i]))
      if (array != nullptr) kernels::prefetch_row(array, range.rows.width);
  }

  static void step_rows(const real* members, const RowRange& range, const real* gradients) {
    const Rule rule = rule_of<Rule>(members);
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    for (std::size_t i = range.begin; i < range.end; ++i) {
      prefetch(range, i + ahead);
      change_values<Rule>(width, range.rows.arrays<kArrays>(range[i]), gradients + i * width,
                          [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
    }
  }

  static std::uint64_t catch_up_and_step_rows(const real* members, const RowRange& range,
                                              const real* gradients, std::uint64_t after) {
    const Rule rule = rule_of<Rule>(members);
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    MissedSteps<Rule> missed(*range.history, range.history->steps());
    std::uint64_t visited = range.end - range.begin;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      prefetch(range, i + ahead);
      const RowOf row = range.rows.row<kArrays>(range[i]);
      visited += replay(row, range);
      const real* values = gradients + i * width;
      const bool late = missed.for_each_piece(*row.step, [&](const auto& piece, auto last) {
        change_values<Rule>(width, row.arrays, values,
                            [rule, piece, last](Vectors& x, const Simd& g) {
                              x = piece(x);
                              if (last) update(rule, x, g);
                            });
      });
      if (!late)
        change_values<Rule>(width, row.arrays, values,
                            [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
      *row.step = after;
    }
    return visited;
  }

  // Never inlined: otherwise the compiler might fuse multiplications and additions in one place but
  // not in another, and the bits would depend on the caller.
  [[gnu::noinline]] static std::uint64_t replay(const RowOf& row, const RowRange& range) {
    const StepHistory& history = *range.history;
    std::uint64_t& step = *row.step;
    std::uint64_t replayed = 0;
    while (history.has_replay(step)) {
      MissedSteps<Rule> missed(history, history.closed_until(step));
      apply(row, missed, range.rows.width);
      // Several steps at once, with the values in registers.
      std::size_t run = history.run_of(step + 1);
      std::array<const real*, 8> rules;
      std::size_t count = 0;
      do {
        rules[count++] = history.members(run);
        if (++step == history.runs()[run].end) ++run;
      } while (count < rules.size() && history.has_replay(step) &&
               history.runs()[run].idle == Idle::kReplay);
      change_values<Rule>(range.rows.width, row.arrays, nullptr, [&](Vectors& x, const Simd& zero) {
        for (std::size_t i = 0; i < count; ++i) update(rule_of<Rule>(rules[i]), x, zero);
      });
      replayed += count;
    }
    return replayed;
  }

  static std::uint64_t apply_rows(const RowRange& range, std::uint64_t since) {
    MissedSteps<Rule> missed(*range.history, range.history->steps());
    std::uint64_t visited = 0;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const RowOf row = range.rows.row<kArrays>(range[i]);
      // First, or the step that the row is of would depend on whether it was read before.
      visited += replay(row, range);
      if (*row.step >= since) continue;
      apply(row, missed, range.rows.width);
      ++visited;
    }
    return visited;
  }

  // Steps up to missed.to(), which must all have a closed form.
  static void apply(const RowOf& row, MissedSteps<Rule>& missed, std::size_t width) {
    missed.for_each_piece(*row.step, [&](const auto& piece, auto) {
      change_values<Rule>(width, row.arrays, nullptr,
                          [piece](Vectors& x, const Simd&) { x = piece(x); });
    });
    *row.step = missed.to();
  }

  static std::uint64_t copy_rows(const RowRange& range, real* out) {
    const std::size_t width = range.rows.width;
    const std::size_t ahead = kernels::rows_ahead(width);
    MissedSteps<Rule> missed(*range.history, range.history->steps());
    RowCopy copy;
    std::uint64_t visited = range.end - range.begin;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      prefetch(range, i + ahead);
      const RowOf row = range.rows.readable<kArrays>(
          range[i], [&](std::uint64_t step) { return range.history->has_replay(step); }, copy);
      visited += replay(row, range);
      real* const to = out + i * width;
      auto arrays = row.arrays;
      const bool late = missed.for_each_piece(*row.step, [&](const auto& piece, auto) {
        read_values<Rule>(width, arrays,
                          [piece, to](const Vectors& x, const auto& put) { put(piece(x)[0], to); });
        arrays[0] = to;  // where the next piece goes on
      });
      if (!late) std::copy_n(arrays[0], width, to);
    }
    return visited;
  }
};

template <class Rule>  // the members of a rule
RuleMembers members_of(const Rule& rule) {
  RuleMembers members{};
  std::ranges::copy(std::bit_cast<std::array<real, sizeof(Rule) / sizeof(real)>>(rule),
                    members.begin());
  return members;
}

/// The functions of a rule.
template <class Rule>
const RuleFunctions& functions_of() {
  using Loops = RuleLoops<Rule>;
  static const RuleFunctions functions{
      .name = Rule::kName,
      .states = Rule::kStates,
      .members = sizeof(Rule) / sizeof(real),
      .always =
          [] {
            std::array<bool, kMostStates> all{};
            std::ranges::copy(Rule::uses(typename Rule::Options()), all.begin());
            return all;
          }(),
      .idle = [](const real* rule) { return rule_of<Rule>(rule).idle(); },
      .continues =
          [](const real* rule, const real* before) {
            return rule_of<Rule>(rule).continues(rule_of<Rule>(before));
          },
      .idle_step =
          [](const real* rule, double* values) {
            std::array<double, Rule::kStates.size()> states;
            std::copy_n(values + 1, states.size(), states.begin());
            rule_of<Rule>(rule).update(values[0], 0.0, states);
            std::ranges::copy(states, values + 1);
          },
      .step_values = &Loops::step_values,
      .step_rows = &Loops::step_rows,
      .catch_up_and_step_rows = &Loops::catch_up_and_step_rows,
      .apply_rows = &Loops::apply_rows,
      .copy_rows = &Loops::copy_rows};
  return functions;
}

}  // namespace rowgrad
