#include <cmath>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/kernels/simd.hpp>
#include <rowgrad/optim/pending_rows.hpp>
#include <rowgrad/optim/rule_optimizer.hpp>

namespace rowgrad {
namespace {

constexpr const char* kSteps = "step";
constexpr const char* kPending = "lazy";

}  // namespace

/// What an optimizer keeps for one parameter.
struct RuleEngine::Slot {
  Slot(Parameter& of, const RuleFunctions& rule, std::size_t of_group)
      : parameter(of),
        group(of_group),
        states(of.stored().states({rule.name, of.name(), rule.states})),
        pending(of, *states, rule) {}

  Parameter& parameter;
  std::size_t group;
  std::uint64_t steps = 0;
  std::uint64_t rows_visited = 0;  // but for those that were pending
  std::unique_ptr<RowStates> states;
  PendingRows pending;
};

/// A step of one parameter that may be made.
struct RuleEngine::Step {
  Slot& slot;
  RowStates::Needs states;
  RuleMembers members;
  bool postpones;
};

RuleEngine::RuleEngine(const RuleFunctions& rule) : rule_(rule) {}

RuleEngine::~RuleEngine() = default;

void RuleEngine::add_slots(const std::vector<Parameter*>& parameters, std::size_t group) {
  std::vector<std::unique_ptr<Slot>> added;
  for (Parameter* parameter : parameters)
    if (parameter != nullptr)  // add_parameters() refuses them
      added.push_back(std::make_unique<Slot>(*parameter, rule_, group));
  slots_.reserve(slots_.size() + added.size());
  add_parameters(parameters);
  std::ranges::move(added, std::back_inserter(slots_));
}

void RuleEngine::forget(const Parameter& parameter) noexcept {
  for (const auto& slot : slots_)
    if (&slot->parameter == &parameter) slot->pending.abandon();
  Optimizer::forget(parameter);
}

std::uint64_t RuleEngine::rows_visited() const {
  std::uint64_t total = 0;
  for (const auto& slot : slots_) total += slot->rows_visited + slot->pending.rows_visited();
  return total;
}

std::optional<double> RuleEngine::idle_decay(const Parameter& parameter) const {
  for (const auto& slot : slots_) {
    if (&slot->parameter != &parameter) continue;
    if (!demands(slot->group).exact) return 0;
    const RuleMembers members = make_rule(slot->group, {slot->steps + 1, false});
    std::vector<double> one(1 + rule_.states.size(), 0.0);
    one[0] = 1;
    rule_.idle_step(members.data(), one.data());
    if (one[0] == 1) return 0;
    // Decay that goes through a state, such as momentum, builds up: no share of each step.
    const bool builds_up = std::any_of(one.begin() + 1, one.end(), [](double x) { return x != 0; });
    return builds_up || rule_.idle(members.data()) == Idle::kReplay ? std::nullopt
                                                                    : std::optional(1 - one[0]);
  }
  return std::nullopt;
}

// --- A step -------------------------------------------------------------------------------------

// Whatever is wrong in any parameter is found before one of them changes. After that, only memory
// or the disk can fail.
void RuleEngine::step() {
  check_parameters_live();
  std::vector<Step> steps;
  steps.reserve(slots_.size());
  for (const auto& slot : slots_)
    if (slot->parameter.trainable() && !slot->parameter.gradient().is_none())
      steps.push_back(checked_step(*slot));
  for (const Step& step : steps) make_step(step);
}

auto RuleEngine::checked_step(Slot& slot) const -> Step {
  const Parameter& parameter = slot.parameter;
  const bool rows = parameter.gradient().is_rows();
  if (!rows) parameter.check_whole(rule_.name, ": the gradient of ", parameter.name(), " is dense");
  const auto [needs, exact] = demands(slot.group);
  const bool first = slot.states->lacks(needs);
  const RuleMembers members = make_rule(slot.group, {slot.steps + 1, first});
  if (rows) slot.pending.check_step(members.data());
  return {slot, needs, members, rows && exact && rule_.idle(members.data()) != Idle::kNothing};
}

void RuleEngine::make_step(const Step& step) const {
  Slot& slot = step.slot;
  const Gradient& gradient = slot.parameter.gradient();
  const real* rule = step.members.data();
  slot.states->ensure(step.states, gradient.is_rows());
  ++slot.steps;
  if (gradient.is_rows() && (step.postpones || slot.pending.any()))
    return slot.pending.step(rule, step.postpones);

  if (gradient.is_rows()) slot.states->begin_change(gradient.rows().indices());
  slot.parameter.apply_pending();
  slot.parameter.note_change();
  const RowView values = slot.states->view();
  if (gradient.is_dense()) {
    const real* gradients = gradient.dense().data();
    kernels::parallel_for(gradient.dense().size(), kernels::kGrainNumbers / 4,
                          [&](std::size_t begin, std::size_t end) {
                            rule_.step_values(rule, values.at<1 + kMostStates>(begin), end - begin,
                                              gradients + begin);
                          });
  } else {
    const RowGradient& rows = gradient.rows();
    kernels::parallel_for(
        rows.size(), kernels::row_grain(rows.width()), [&](std::size_t begin, std::size_t end) {
          rule_.step_rows(rule, {values, nullptr, rows.indices().data(), begin, end},
                          rows.values().data());
        });
    slot.rows_visited += rows.size();
  }
}

// --- Checks of a rule ---------------------------------------------------------------------------

void RuleEngine::check_rule(const real* members) const {
  const Idle idle = rule_.idle(members);
  if (idle != Idle::kLinear && idle != Idle::kNothing) return;
  const std::size_t count = 1 + rule_.states.size();
  std::vector<double> after(count), expected(count, 0.0);
  for (std::size_t i = 0; i < count; ++i) after[i] = 0.75 - 0.125 * static_cast<double>(i);
  double magnitude = 1;  // of the terms of a sum, which is rounded
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> unit(count, 0.0);
    unit[i] = 1;
    if (idle == Idle::kLinear) rule_.idle_step(members, unit.data());
    for (std::size_t k = 0; k < count; ++k) {
      expected[k] += after[i] * unit[k];
      magnitude = std::max(magnitude, std::abs(unit[k]));
    }
  }
  rule_.idle_step(members, after.data());
  const bool proves = magnitude < 1e300;  // near the limit of a double, sums prove nothing
  for (std::size_t k = 0; proves && k < count; ++k)
    check_state(std::abs(after[k] - expected[k]) <= 1e-9 * magnitude, rule_.name,
                ": idle() says that a step without gradient ",
                idle == Idle::kLinear ? "is linear" : "changes nothing", ", but it makes ",
                k == 0 ? "the number" : rule_.states[k - 1], " ", after[k], ", expected ",
                expected[k]);
}

// --- Saving and loading -------------------------------------------------------------------------

// Rows are saved as they are stored, with the steps that they missed, so that a resumed run has the
// same bits.
Checkpoint RuleEngine::state_dict() const {
  check_parameters_live();
  check_names("state_dict");
  Checkpoint all;
  for (const auto& slot : slots_) {
    Checkpoint state;
    state.put(kSteps, slot->steps);
    slot->states->save(state);
    if (slot->pending.any()) state.put(kPending, slot->pending.state_dict());
    all.put(slot->parameter.name(), state);
  }
  return all;
}

void RuleEngine::check_parameters(const Checkpoint& state) const {
  check_parameters_live();
  const std::set<std::string> known = check_names("load_state_dict");
  for (const std::string& name : state.names())
    check_argument(known.contains(name), rule_.name,
                   "::load_state_dict: there is no parameter for ", in_quotes(name));
}

void RuleEngine::check_state_dict(const Checkpoint& state) const {
  check_parameters(state);
  for (const auto& slot : slots_) loaded(*slot, state.part(slot->parameter.name()), true);
}

void RuleEngine::load_state_dict(const Checkpoint& state) {
  check_parameters(state);
  std::vector<std::unique_ptr<Slot>> loaded;
  for (const auto& slot : slots_)
    loaded.push_back(this->loaded(*slot, state.part(slot->parameter.name()), false));
  for (const auto& slot : loaded) slot->pending.take_over();
  slots_.swap(loaded);  // what is pending in the old ones is applied when they are destroyed
}

// If the values of the parameter follow, all is checked that does not depend on them.
auto RuleEngine::loaded(const Slot& slot, const Checkpoint& state, bool values_follow) const
    -> std::unique_ptr<Slot> {
  auto loaded = std::make_unique<Slot>(slot.parameter, rule_, slot.group);
  loaded->rows_visited = slot.rows_visited + slot.pending.rows_visited();
  loaded->steps = state.count(kSteps);
  if (loaded->steps == 0) return loaded;
  loaded->states->load(state, rule_.always, values_follow);
  const Checkpoint pending = state.part(kPending);
  if (!pending.empty()) loaded->pending.load(pending, loaded->steps, values_follow);
  return loaded;
}

// All names that a state may contain. Throws if two parameters have the same name.
std::set<std::string> RuleEngine::check_names(const char* caller) const {
  std::vector<std::string> of_slot = saved_names(rule_.states);
  of_slot.push_back(kSteps);
  for (const char* name : PendingRows::kNames) of_slot.push_back(concat(kPending, '.', name));
  std::set<std::string> names;
  for (const auto& slot : slots_)
    for (const std::string& name : of_slot)
      check_argument(names.insert(slot->parameter.name() + '.' + name).second, rule_.name,
                     "::", caller, ": two parameters are named ", slot->parameter.name());
  return names;
}

}  // namespace rowgrad
