#pragma once

// An optimizer made from an update rule.

#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/optim/optimizer.hpp>
#include <rowgrad/optim/parameter_updates.hpp>

namespace rowgrad {

/// Applies a rule (update_rule.hpp) to every trainable parameter that has a gradient, dense or
/// rows; with row gradients as RowUpdates says (lazy_table.hpp). If hardly any two steps are
/// alike (under a schedule, or with Adam's bias corrections), the history of steps is limited:
/// after thousands of them, each step also settles a few of the rows that are owed the oldest
/// steps, going through the whole table in turn.
template <class Rule>
class RuleOptimizer : public Optimizer {
  static_assert(UpdateRule<Rule>,
                "the rule lacks something of what RuleDefaults (update_rule.hpp) lists");
  static_assert(kListsItsMembers<Rule>,
                "all data members of a rule must be of type `real` and listed in members(rule)");

 public:
  using Options = typename Rule::Options;

  struct Group {
    std::vector<Parameter*> parameters = {};
    Options options = {};
  };

  /// Throws std::invalid_argument for an option outside its range, an empty list, a null parameter,
  /// and one that is given twice; std::logic_error for a rule whose idle() is wrong (check_idle),
  /// and for one whose step of a value depends on other values (RuleArrays::check_lanes).
  explicit RuleOptimizer(std::vector<Parameter*> parameters, const Options& options = {})
      : RuleOptimizer(std::vector<Group>{{std::move(parameters), options}}) {}

  RuleOptimizer(std::initializer_list<Parameter*> parameters, const Options& options = {})
      : RuleOptimizer(std::vector<Parameter*>(parameters), options) {}

  /// Groups of parameters, each with its own options.
  explicit RuleOptimizer(std::vector<Group> groups) : Optimizer(all_parameters(groups)) {
    for (const Group& group : groups) check(group.options);
    for (const Group& group : groups) {
      for (Slot& slot : slots_of(group)) slots_.push_back(std::move(slot));
      options_.push_back(group.options);
    }
  }

  /// Adds a group. Throws like the constructor, and then changes nothing.
  void add_group(const Group& group) {
    check(group.options);
    std::vector<Slot> added = slots_of(group);
    slots_.reserve(slots_.size() + added.size());
    options_.reserve(options_.size() + 1);
    add_parameters(group.parameters);  // the last call that can fail
    std::move(added.begin(), added.end(), std::back_inserter(slots_));
    options_.push_back(group.options);
  }

  void step() override {
    this->check_parameters_live();
    std::vector<std::pair<Updates*, typename Updates::Step>> steps;
    steps.reserve(slots_.size());
    for (auto& [updates, group] : slots_) {
      const Parameter& parameter = updates->parameter();
      if (parameter.trainable() && !parameter.gradient().is_none())
        steps.emplace_back(updates.get(), updates->prepare_step(options_[group]));
    }
    for (auto& [updates, step] : steps) updates->step(std::move(step));
  }

  std::size_t group_count() const override { return options_.size(); }

  /// The options of a group. New options take effect in the next step. Throws std::invalid_argument
  /// for a group that does not exist and for an option outside its range.
  const Options& options(std::size_t group = 0) const {
    check_argument(group < options_.size(), Rule::kName, ": there is no group ", group,
                   ", expected a number below ", options_.size());
    return options_[group];
  }
  void set_options(const Options& options, std::size_t group = 0) {
    this->options(group);
    Rule::check(options);
    options_[group] = options;
  }

  double learning_rate(std::size_t group = 0) const override {
    return options(group).learning_rate;
  }
  void set_learning_rate(double rate, std::size_t group = 0) override {
    Options changed = options(group);
    changed.learning_rate = rate;
    set_options(changed, group);
  }

  std::uint64_t rows_visited() const override {
    std::uint64_t total = 0;
    for (const Slot& slot : slots_) total += slot.updates->rows_visited();
    return total;
  }

  Checkpoint state_dict() const override {
    this->check_parameters_live();
    check_names("state_dict");
    Checkpoint all;
    for (const Slot& slot : slots_)
      all.put(slot.updates->parameter().name(), slot.updates->state_dict());
    return all;
  }

  void load_state_dict(const Checkpoint& state) override {
    this->check_parameters_live();
    const std::set<std::string> known = check_names("load_state_dict");
    for (const std::string& name : state.names())
      check_argument(known.contains(name), Rule::kName,
                     "::load_state_dict: there is no parameter for ", in_quotes(name));
    std::vector<std::unique_ptr<Updates>> loaded;
    for (const Slot& slot : slots_)
      loaded.push_back(slot.updates->load(state.part(slot.updates->parameter().name())));
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].updates = std::move(loaded[i]);  // the old one returns the table
      slots_[i].updates->take_over();
    }
  }

 private:
  using Updates = ParameterUpdates<Rule>;

  struct Slot {
    std::unique_ptr<Updates> updates;  // on the heap: parameters keep its address
    std::size_t group;
  };

  static std::vector<Parameter*> all_parameters(const std::vector<Group>& groups) {
    std::vector<Parameter*> all;
    for (const Group& group : groups)
      for (Parameter* parameter : group.parameters) all.push_back(parameter);
    return all;
  }

  static void check(const Options& options) {
    Rule::check(options);
    const Rule rule(options, StepNumber{.step = 2, .first_of_state = false});
    check_idle(rule);
    RuleArrays<Rule>::check_lanes(rule);
  }

  // Slots for the group that comes next. Skips null parameters, which add_parameters() refuses.
  std::vector<Slot> slots_of(const Group& group) const {
    std::vector<Slot> slots;
    for (Parameter* parameter : group.parameters)
      if (parameter != nullptr)
        slots.push_back({std::make_unique<Updates>(*parameter), options_.size()});
    return slots;
  }

  // All names that a state may contain. Throws if two parameters have the same name.
  std::set<std::string> check_names(std::string_view caller) const {
    std::set<std::string> names;
    for (const Slot& slot : slots_)
      for (const std::string& name : Updates::names())
        check_argument(names.insert(slot.updates->parameter().name() + '.' + name).second,
                       Rule::kName, "::", caller, ": two parameters are named ",
                       slot.updates->parameter().name());
    return names;
  }

  std::vector<Options> options_;
  std::vector<Slot> slots_;
};

}  // namespace rowgrad
