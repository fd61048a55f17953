#include <cmath>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/optim/rule_optimizer.hpp>

namespace rowgrad {

void RuleEngine::add_optimized(const std::vector<Parameter*>& parameters, const RuleLoops& loops) {
  OptimizedParameters added;
  for (Parameter* parameter : parameters)
    if (parameter != nullptr)  // add_parameters() throws for null
      added.push_back(std::make_shared<OptimizedParameter>(*parameter, rule_, loops.fresh()));
  optimized_.reserve(optimized_.size() + added.size());
  add_parameters(parameters);
  std::ranges::move(added, std::back_inserter(optimized_));
}

RuleEngine::~RuleEngine() {
  for (const auto& optimized : optimized_) optimized->abandon();
}

// Returns null if the optimizer does not train the parameter.
OptimizedParameter* RuleEngine::find(const Parameter& parameter) const {
  for (const auto& optimized : optimized_)
    if (optimized->parameter() == &parameter) return optimized.get();
  return nullptr;
}

void RuleEngine::forget(const Parameter& parameter) noexcept {
  if (OptimizedParameter* const optimized = find(parameter)) optimized->forget();
  Optimizer::forget(parameter);
}

std::uint64_t RuleEngine::rows_visited() const {
  std::uint64_t total = 0;
  for (const auto& optimized : optimized_) total += optimized->rows_visited();
  return total;
}

std::optional<double> RuleEngine::decay_without_gradient(const Parameter& parameter) const {
  const OptimizedParameter* const optimized = find(parameter);
  return optimized != nullptr ? optimized->decay_without_gradient() : std::nullopt;
}

bool RuleEngine::changes_without_gradient(const Parameter& parameter) const {
  const OptimizedParameter* const optimized = find(parameter);
  return optimized != nullptr && optimized->changes_without_gradient();
}

bool RuleEngine::watch_next_step(const Parameter& parameter,
                                 const std::shared_ptr<RowWatcher>& watcher) const {
  OptimizedParameter* const optimized = find(parameter);
  if (optimized != nullptr) optimized->watch_next_step(watcher);
  return optimized != nullptr;
}

// Plans all steps first, so that errors are thrown before any parameter changes. After that,
// OptimizedParameter::step() throws only if memory runs out or the disk fails.
void RuleEngine::step() {
  check_parameters_live();
  const auto is_due = [](const auto& optimized) {
    return optimized->parameter()->trainable() && !optimized->parameter()->gradient().is_none();
  };
  std::vector<std::pair<OptimizedParameter*, StepPlan>> steps;
  steps.reserve(optimized_.size());
  for (const auto& optimized : optimized_)
    if (is_due(optimized)) steps.emplace_back(optimized.get(), optimized->plan());
  for (const auto& [optimized, plan] : steps) optimized->step(plan);
}

// --- Checks of a rule ---------------------------------------------------------------------------

void RuleEngine::check_rule(const RuleLoops& loops) const {
  const StepPlan plan = loops.plan({.step = 2, .is_first_use = false});
  const Deferral deferral = loops.deferral(plan);
  if (deferral != Deferral::kLinear && deferral != Deferral::kNothing) return;
  const std::size_t count = 1 + rule_.slots.size();
  std::vector<double> after(count), expected(count, 0.0);
  for (std::size_t i = 0; i < count; ++i) after[i] = 0.75 - 0.125 * static_cast<double>(i);
  double magnitude = 1;  // upper bound of the terms below, to scale the tolerance
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> unit(count, 0.0);
    unit[i] = 1;
    if (deferral == Deferral::kLinear) loops.step_without_gradient(plan, unit.data());
    for (std::size_t k = 0; k < count; ++k) {
      expected[k] += after[i] * unit[k];
      magnitude = std::max(magnitude, std::abs(unit[k]));
    }
  }
  loops.step_without_gradient(plan, after.data());
  const bool proves = magnitude < 1e300;  // larger sums may overflow
  for (std::size_t k = 0; proves && k < count; ++k)
    check_state(std::abs(after[k] - expected[k]) <= 1e-9 * magnitude, rule_.name,
                ": deferral() promises that a step without gradient ",
                deferral == Deferral::kLinear ? "is linear" : "changes nothing", ", but ",
                k == 0 ? "the value" : rule_.slots[k - 1], " becomes ", after[k], ", expected ",
                expected[k]);
}

// --- Saving and loading -------------------------------------------------------------------------

StateDict RuleEngine::state_dict() const {
  check_parameters_live();
  check_names("state_dict");
  StateDict all;
  for (const auto& optimized : optimized_)
    all.put(optimized->parameter()->name(), optimized->state_dict());
  return all;
}

void RuleEngine::check_state_dict(const StateDict& state) const { loaded(state, true); }

void RuleEngine::load_state_dict(const StateDict& state) {
  auto loaded = this->loaded(state, false);
  for (const auto& optimized : loaded) optimized->commit();
  optimized_.swap(loaded);
  for (const auto& optimized : loaded) optimized->abandon();  // the replaced objects
}

// Returns the loaded state. With values_follow, only checks what parameter values do not affect.
auto RuleEngine::loaded(const StateDict& state, bool values_follow) const -> OptimizedParameters {
  check_parameters_live();
  const std::set<std::string> known = check_names("load_state_dict");
  for (const std::string& name : state.names())
    check_argument(known.contains(name), rule_.name, "::load_state_dict: unexpected name ",
                   in_quotes(name));
  OptimizedParameters loaded;
  for (const auto& optimized : optimized_)
    loaded.push_back(optimized->loaded(state.part(optimized->parameter()->name()), values_follow));
  return loaded;
}

// Returns all names that a state may contain. Throws if two parameters have the same name.
std::set<std::string> RuleEngine::check_names(const char* caller) const {
  std::set<std::string> names;
  for (const Parameter* parameter : parameters())
    for (const std::string& name : OptimizedParameter::names(rule_))
      check_argument(names.insert(parameter->name() + '.' + name).second, rule_.name, "::", caller,
                     ": two parameters are named ", parameter->name(), ", expected unique names");
  return names;
}

}  // namespace rowgrad
