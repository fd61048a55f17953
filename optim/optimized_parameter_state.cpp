#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/optim/optimized_parameter.hpp>

// Saving and loading of optimized parameters, and the effect of a step without gradient.

namespace rowgrad {
namespace {

constexpr const char* kSteps = "step";
constexpr const char* kDeferred = "lazy";
constexpr const char* kChecksum = "checksum";

// Saved instead of a slot that does not exist yet: set_options() asked for it after the last step.
constexpr const char* kNotCreated = "not begun";

bool is_not_created(const StateDict& state, const std::string& name) {
  if (!state.contains(name)) return false;
  const auto* value = std::get_if<std::string>(&state.at(name));
  return value != nullptr && *value == kNotCreated;
}

// Returns the number of bits of a value, then the checksum. Values that were saved in another
// precision are rounded when they are loaded, so their checksum cannot be compared.
std::vector<std::int64_t> checksum_of(const Tensor& values) {
  Checksum sum;
  sum.add_bytes(std::as_bytes(std::span(values.data(), values.size())));
  return {8 * sizeof(real), static_cast<std::int64_t>(sum.value())};
}

}  // namespace

// Saves stale rows as they are stored, with their deferred steps, so that a resumed run has the
// same bits.
StateDict OptimizedParameter::state_dict() const {
  StateDict state;
  slots_->save(state);
  state.put(kSteps, steps_);
  const SlotStore::Needs needs = loops_->needs();
  for (std::size_t i = 0; i < rule_.slots.size() && steps_ > 0; ++i)
    if (const std::string name(rule_.slots[i]); needs.uses[i] && !has_table(state, name))
      state.put(name, kNotCreated);
  if (has_deferred()) state.put(kDeferred, deferred_state());
  return state;
}

StateDict OptimizedParameter::deferred_state() const {
  const StepRuns& history = loops_->history();
  std::vector<std::int64_t> steps;
  Tensor rules = empty({history.runs().size(), rule_.members});
  for (std::size_t run = 0; run < history.runs().size(); ++run) {
    steps.push_back(static_cast<std::int64_t>(history.runs()[run].end - history.begin_of(run)));
    std::copy_n(loops_->members(run).begin(), rule_.members, rules.data() + run * rule_.members);
  }
  StateDict state;
  slots_->save_rows(state);
  state.put("steps", std::move(steps));
  state.put("rules", std::move(rules));
  if (parameter_->is_in_memory()) state.put(kChecksum, checksum_of(parameter_->copy()));
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

auto OptimizedParameter::loaded(const StateDict& state, bool values_follow) const
    -> std::shared_ptr<OptimizedParameter> {
  auto loaded = std::make_shared<OptimizedParameter>(*parameter_, rule_, loops_->fresh());
  loaded->rows_visited_ = rows_visited();
  loaded->steps_ = state.count(kSteps);
  if (loaded->steps_ == 0) return loaded;
  const SlotStore::Needs needs = loops_->needs();
  std::array<bool, kMaxSlots> saved{};
  for (std::size_t i = 0; i < rule_.slots.size(); ++i) {
    const std::string name(rule_.slots[i]);
    saved[i] = has_table(state, name) && !is_not_created(state, name);
    check_argument(
        !needs.uses[i] || has_table(state, name), rule_.name, "::load_state_dict: '",
        parameter_->name(), '.', name,
        "' is missing, but the optimizer's options need it; create the optimizer with the "
        "options of the saved one, and change them after loading (set_options)");
  }
  loaded->slots_->load(state, saved, values_follow);
  const StateDict deferred = state.part(kDeferred);
  if (!deferred.empty()) loaded->load_deferred(deferred, values_follow);
  return loaded;
}

void OptimizedParameter::load_deferred(const StateDict& state, bool values_follow) {
  check_argument(parameter_->shape().size() == 2, rule_.name, "::load_state_dict: '",
                 parameter_->name(), "' is not a table, but its state has deferred steps");
  const auto check = [&](bool fits, const char* what, const auto&... text) {
    check_argument(fits, rule_.name, "::load_state_dict: '", parameter_->name(), ".lazy.", what,
                   "' has ", text...);
  };
  const std::vector<std::int64_t> steps = state.integers("steps");
  const Tensor rules = state.tensor("rules", {steps.size(), rule_.members});
  for (const real member : rules)
    check(std::isfinite(member), "rules", member, ", expected finite values");
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
    check(saved.size() == here.size(), kChecksum, saved.size(), " values, expected ", here.size());
    check_argument(saved[0] != here[0] || saved == here, rule_.name, "::load_state_dict: '",
                   parameter_->name(), "' does not have the values that it had when the state was ",
                   "saved; load the model's state first");
  }
  Tensor values = empty(parameter_->shape());
  gather_all(values.data());
  const std::size_t width = parameter_->shape()[1];
  std::vector<std::int32_t> others;
  for (std::size_t at = 0; at < values.size(); at += width)
    if (std::memcmp(values.data() + at, present.data() + at, width * sizeof(real)) != 0)
      others.push_back(static_cast<std::int32_t>(at / width));
  apply(others);
  const RowView rows = slots_->rows();
  for (const std::int32_t row : others) {
    const std::size_t at = static_cast<std::size_t>(row) * width;
    std::copy_n(present.data() + at, width, rows.first[0] + at);
  }
}

void OptimizedParameter::commit() noexcept {
  if (!std::exchange(is_loaded_, false)) return;
  parameter_->discard_deferred();  // already applied to the values that loaded() compared
  slots_->commit();
  parameter_->increment_version();
  parameter_->set_deferred(shared_from_this());
}

// Returns the plan of the next step, for rows whose slots exist.
StepPlan OptimizedParameter::next_plan() const {
  return loops_->fresh()->plan({.step = steps_ + 1, .is_first_use = false});
}

bool OptimizedParameter::changes_without_gradient() const {
  return loops_->deferral(next_plan()) != Deferral::kNothing;
}

std::optional<double> OptimizedParameter::decay_without_gradient() const {
  const StepPlan plan = next_plan();
  const Deferral deferral = loops_->deferral(plan);
  if (deferral == Deferral::kNothing) return 0;
  std::vector<double> one(1 + rule_.slots.size(), 0.0);
  one[0] = 1;
  loops_->step_without_gradient(plan, one.data());
  if (one[0] == 1) return 0;
  // If decay also changes a slot, such as momentum, the fraction differs in each step.
  const bool builds_up = std::any_of(one.begin() + 1, one.end(), [](double x) { return x != 0; });
  return builds_up || deferral == Deferral::kReplay ? std::nullopt : std::optional(1 - one[0]);
}

}  // namespace rowgrad
