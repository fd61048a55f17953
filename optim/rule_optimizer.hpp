#pragma once

// An optimizer made from an update rule.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/optim/optimizer.hpp>
#include <rowgrad/optim/rule_functions.hpp>

namespace rowgrad {

/// What is the same for all rules: the states and steps of each parameter, and how a step goes.
class RuleEngine : public Optimizer {
 public:
  ~RuleEngine() override;

  void step() override;
  std::optional<double> idle_decay(const Parameter& parameter) const override;
  std::uint64_t rows_visited() const override;
  Checkpoint state_dict() const override;
  void load_state_dict(const Checkpoint& state) override;
  void check_state_dict(const Checkpoint& state) const override;

 protected:
  /// Borrows the functions.
  explicit RuleEngine(const RuleFunctions& rule);

  /// Adds the parameters of a group. Throws like Optimizer::add_parameters, and then changes
  /// nothing.
  void add_slots(const std::vector<Parameter*>& parameters, std::size_t group);

  /// Throws std::logic_error if the rule does not do in a step without gradient what its idle()
  /// promises (that nothing changes, or that the change is linear), and if a value after a step
  /// depends on its neighbours.
  void check_rule(const real* members) const;

  /// What the options of a group ask for, and their rule for a step.
  struct Demands {
    RowStates::Needs states;  // which it uses, and how they start
    bool exact;               // RowUpdates::kExact
  };
  virtual Demands demands(std::size_t group) const = 0;
  virtual RuleMembers make_rule(std::size_t group, const StepNumber& number) const = 0;

 private:
  struct Slot;
  struct Step;

  void forget(const Parameter& parameter) noexcept override;
  Step checked_step(Slot& slot) const;
  void make_step(const Step& step) const;
  void check_parameters(const Checkpoint& state) const;
  std::unique_ptr<Slot> loaded(const Slot& slot, const Checkpoint& state, bool values_follow) const;
  std::set<std::string> check_names(const char* caller) const;

  const RuleFunctions& rule_;
  std::vector<std::unique_ptr<Slot>> slots_;  // on the heap: parameters keep addresses in them
};

/// Applies a rule (update_rule.hpp) to every trainable parameter that has a gradient, dense or
/// rows; with row gradients as RowUpdates says (pending_rows.hpp). If hardly any two steps are
/// alike (under a schedule, or with Adam's bias corrections), the history of steps is limited:
/// after thousands of them, each step also brings a few of the rows up to date that missed the
/// oldest steps, going through the whole table in turn.
template <class Rule>
class RuleOptimizer : public RuleEngine {
  static_assert(UpdateRule<Rule>,
                "the rule lacks something of what RuleDefaults (update_rule.hpp) lists");
  static_assert(kListsItsMembers<Rule>,
                "all data members of a rule must be of type `real` and listed in members(rule)");
  static_assert(Rule::kStates.size() <= kMostStates && sizeof(Rule) <= sizeof(RuleMembers),
                "a rule has at most 8 states and 32 members");

 public:
  using Options = typename Rule::Options;  // the options of the rule

  /// Parameters with options of their own.
  struct Group {
    std::vector<Parameter*> parameters = {};  // at least one
    Options options = {};                     // the options of all of them
  };

  /// Throws std::invalid_argument for an option outside its range, an empty list, a null parameter,
  /// and one that is given twice; std::logic_error for a rule whose idle() is wrong, and for one
  /// whose step of a value depends on other values (RuleEngine::check_rule).
  explicit RuleOptimizer(std::vector<Parameter*> parameters, const Options& options = {})
      : RuleOptimizer(std::vector<Group>{{std::move(parameters), options}}) {}

  /// The same, for a list in braces.
  RuleOptimizer(std::initializer_list<Parameter*> parameters, const Options& options = {})
      : RuleOptimizer(std::vector<Parameter*>(parameters), options) {}

  /// Groups of parameters, each with its own options.
  explicit RuleOptimizer(const std::vector<Group>& groups) : RuleEngine(functions()) {
    for (const Group& group : groups) check(group.options);
    for (const Group& group : groups) {
      if (!group.parameters.empty()) add_slots(group.parameters, options_.size());
      options_.push_back(group.options);
    }
    check_argument(!parameters().empty(), "Optimizer: there are no parameters");
  }

  /// Adds a group. Throws like the constructor, and then changes nothing.
  void add_group(const Group& group) {
    check(group.options);
    options_.reserve(options_.size() + 1);
    add_slots(group.parameters, options_.size());  // the last call that can fail
    options_.push_back(group.options);
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

 private:
  static const RuleFunctions& functions();

  void check(const Options& options) const {
    Rule::check(options);
    check_rule(members_of(Rule(options, StepNumber{.step = 2, .first_of_state = false})).data());
  }

  Demands demands(std::size_t group) const override {
    const Options& options = options_[group];
    Demands demands{.states = {}, .exact = options.rows == RowUpdates::kExact};
    std::ranges::copy(Rule::uses(options), demands.states.uses.begin());
    for (std::size_t i = 0; i < Rule::kStates.size(); ++i)
      demands.states.starts[i] = Rule::start(options, i);
    return demands;
  }
  RuleMembers make_rule(std::size_t group, const StepNumber& number) const override {
    return members_of(Rule(options_[group], number));
  }

  std::vector<Options> options_;
};

// Not in the class, so that `extern template class` keeps the loops of a rule out of programs:
// those of the library are compiled for speed, and the linker would take whichever it meets first.
template <class Rule>
const RuleFunctions& RuleOptimizer<Rule>::functions() {
  return functions_of<Rule>();
}

}  // namespace rowgrad
