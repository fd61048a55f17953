#pragma once

// How a table with lazy updates is saved and loaded.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <rowgrad/optim/lazy_table.hpp>
#include <rowgrad/optim/saved_rows.hpp>

namespace rowgrad {

template <class Rule>
Checkpoint LazyTable<Rule>::state_dict() const {
  const auto& runs = history_.runs();
  std::vector<std::int64_t> steps;
  Tensor rules = empty({runs.size(), kMembers});
  for (std::size_t run = 0; run < runs.size(); ++run) {
    steps.push_back(static_cast<std::int64_t>(runs[run].end - (run == 0 ? 0 : runs[run - 1].end)));
    const auto members = std::bit_cast<std::array<real, kMembers>>(runs[run].rule);
    std::ranges::copy(members, rules.data() + run * kMembers);
  }
  Checkpoint state;
  if (file_ != nullptr) {
    state.put("file", file_->mark());
  } else {
    put_rows(state, "values", table_);
    state.put("at", std::vector<std::int64_t>(at_.begin(), at_.end()));
  }
  state.put("steps", std::move(steps));
  state.put("rules", std::move(rules));
  return state;
}

template <class Rule>
void LazyTable<Rule>::load(const Checkpoint& state, std::uint64_t most_steps) {
  const auto check_count = [&](const char* name, std::int64_t count, std::int64_t least,
                               std::uint64_t most) {
    check_argument(count >= least && static_cast<std::uint64_t>(count) <= most, Rule::kName,
                   "::load_state_dict: '", parameter_->name(), ".lazy.", name, "' has ", count,
                   ", expected a number from ", least, " to ", most);
    return static_cast<std::uint64_t>(count);
  };
  check_argument(parameter_->shape().size() == 2, Rule::kName, "::load_state_dict: '",
                 parameter_->name(), "' is no table, but its state has lazy rows");
  if (file_ == nullptr) table_ = rows_in(state, "values", parameter_->shape());
  const auto steps = state.integers("steps");
  const Tensor rules = state.tensor("rules", {steps.size(), kMembers});
  for (std::size_t run = 0; run < steps.size(); ++run) {
    std::array<real, kMembers> members;
    std::copy_n(rules.data() + run * kMembers, kMembers, members.begin());
    for (const real member : members)
      check_argument(std::isfinite(member), Rule::kName, "::load_state_dict: '", parameter_->name(),
                     ".lazy.rules' has ", member);
    history_.append(std::bit_cast<Rule>(members),
                    check_count("steps", steps[run], 1, most_steps - history_.steps()));
  }
  loaded_ = true;
  if (file_ != nullptr) {
    check_argument(state.text("file") == file_->mark(), Rule::kName,
                   "::load_state_dict: the state ", "is of '", state.text("file"), "', but ",
                   file_->path().string(), " is at '", file_->mark(),
                   "'; load the state of the model first");
    return;
  }
  const auto at = state.integers("at");
  check_argument(at.size() == parameter_->shape()[0], Rule::kName, "::load_state_dict: '",
                 parameter_->name(), ".lazy.at' has ", at.size(), " numbers, expected ",
                 parameter_->shape()[0]);
  for (const std::int64_t step : at) at_.push_back(check_count("at", step, 0, history_.steps()));

  Tensor numbers = empty(parameter_->shape());
  read(numbers.data());
  const Tensor present = parameter_->copy();
  visit_rows(at_.size(), [&](std::size_t row, Owed& owed) {
    const real* kept = present.data() + row * width();
    if (std::memcmp(numbers.data() + row * width(), kept, width() * sizeof(real)) != 0) {
      settle(row_at(row), owed);
      std::copy_n(kept, width(), row_at(row).numbers[0]);
    }
    return 0;
  });
}

template <class Rule>
void LazyTable<Rule>::take_over() {
  if (!std::exchange(loaded_, false)) return;
  table_ = parameter_->lend(*this, std::move(table_));
  lent_ = true;
}

}  // namespace rowgrad
