#pragma once

// Optimizers that are built from an update rule.

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/optim/optimized_parameter.hpp>
#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad {

/// The part of RuleOptimizer that does not depend on the rule: stepping, saving and loading.
class RuleEngine : public Optimizer {
 public:
  ~RuleEngine() override;  // applies no deferred steps: see RuleOptimizer
  void step() override;
  std::optional<double> decay_without_gradient(const Parameter& parameter) const override;
  bool changes_without_gradient(const Parameter& parameter) const override;
  bool watch_next_step(const Parameter& parameter,
                       const std::shared_ptr<RowWatcher>& watcher) const override;
  std::uint64_t rows_visited() const override;
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& state) override;
  void check_state_dict(const StateDict& state) const override;

 protected:
  /// Creates an optimizer without parameters.
  explicit RuleEngine(const RuleFacts& rule) : rule_(rule) {}

  /// Adds parameters, each with loops.fresh(). Throws like Optimizer::add_parameters,
  /// without changing anything.
  void add_optimized(const std::vector<Parameter*>& parameters, const RuleLoops& loops);

  /// Throws std::logic_error if a step without gradient breaks the promise of the rule's
  /// deferral(): that nothing changes, or that the change is linear.
  void check_rule(const RuleLoops& loops) const;

 private:
  using OptimizedParameters = std::vector<std::shared_ptr<OptimizedParameter>>;

  void forget(const Parameter& parameter) noexcept override;
  OptimizedParameter* find(const Parameter& parameter) const;
  OptimizedParameters loaded(const StateDict& state, bool values_follow) const;
  std::set<std::string> check_names(const char* caller) const;

  const RuleFacts rule_;
  OptimizedParameters optimized_;
};

/// An optimizer that applies a rule (update_rule.hpp) to every trainable parameter that has a
/// gradient. RowUpdates determines how row gradients are handled (optimized_parameter.hpp). In
/// memory, the history of deferred steps is limited. If steps differ (under a schedule, or with
/// Adam's bias corrections), each step after a few thousand also brings some of the stalest rows up
/// to date. Rows that the deferred steps do not change are skipped.
///
/// The destructor applies no deferred steps. The steps stay with the parameter, with the state that
/// they need. Before another optimizer changes a table, the steps are applied to all rows that ever
/// had a gradient. If the steps also change other rows, as weight decay does, the steps are applied
/// to all rows. Rows that never had a gradient get optimizer state only if steps are replayed.
template <class Rule>
class RuleOptimizer : public RuleEngine {
  static_assert(UpdateRule<Rule>,
                "the rule lacks a member that RuleDefaults (update_rule.hpp) requires");
  static_assert(kListsItsMembers<Rule>,
                "all data members of a rule must be of type `real` and listed in members(rule)");
  static_assert(Rule::kSlots.size() <= kMaxSlots && sizeof(Rule) <= 32 * sizeof(real),
                "a rule has at most 8 slots and 32 members");

 public:
  using Options = typename Rule::Options;  // options of one group

  /// Parameters with their own options.
  struct Group {
    std::vector<Parameter*> parameters = {};  // at least one
    Options options = {};                     // shared by these parameters
  };

  /// Creates an optimizer with one group. Throws std::invalid_argument for an option outside its
  /// range, an empty list, a null parameter or a duplicate; std::logic_error if deferral() of the
  /// rule is wrong.
  explicit RuleOptimizer(std::vector<Parameter*> parameters, const Options& options = {})
      : RuleOptimizer(std::vector<Group>{{std::move(parameters), options}}) {}

  /// Accepts a braced list.
  RuleOptimizer(std::initializer_list<Parameter*> parameters, const Options& options = {})
      : RuleOptimizer(std::vector<Parameter*>(parameters), options) {}

  /// Creates an optimizer with several groups. Throws like the constructor above.
  explicit RuleOptimizer(const std::vector<Group>& groups) : RuleEngine(facts()) {
    for (const Group& group : groups) check(group.options);
    for (const Group& group : groups) add(group);
    check_argument(!parameters().empty(), "Optimizer: got no parameters, expected at least one");
  }

  /// Adds a group. Throws like the constructor, without changing anything.
  void add_group(const Group& group) {
    check(group.options);
    check_argument(!group.parameters.empty(),
                   "Optimizer: got no parameters, expected at least one");
    add(group);
  }

  std::size_t group_count() const override { return options_.size(); }

  /// Returns the options of a group. Throws std::invalid_argument if the group does not exist.
  const Options& options(std::size_t group = 0) const {
    check_argument(group < options_.size(), Rule::kName, ": group ", group,
                   " is out of range, expected less than ", options_.size());
    return *options_[group];
  }
  /// Sets the options for the next steps. Also throws if an option is outside its range.
  void set_options(const Options& options, std::size_t group = 0) {
    this->options(group);
    Rule::check(options);
    *options_[group] = options;
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
  static std::unique_ptr<RuleLoops> loops(std::shared_ptr<const Options> options);

  static RuleFacts facts() {
    return {.name = Rule::kName, .slots = Rule::kSlots, .members = sizeof(Rule) / sizeof(real)};
  }

  void check(Options options) const {
    Rule::check(options);
    options.rows = RowUpdates::kExact;
    check_rule(*loops(std::make_shared<const Options>(options)));
  }

  void add(const Group& group) {
    options_.reserve(options_.size() + 1);
    auto options = std::make_shared<Options>(group.options);
    if (!group.parameters.empty()) add_optimized(group.parameters, *loops(options));
    options_.push_back(std::move(options));  // cannot fail
  }

  std::vector<std::shared_ptr<Options>> options_;  // shared with the parameters' loops
};

// Defined outside the class, so that `extern template class` keeps the loops of a rule out of
// programs. The library's loops are compiled for speed; otherwise, the linker might pick slower
// copies.
template <class Rule>
std::unique_ptr<RuleLoops> RuleOptimizer<Rule>::loops(std::shared_ptr<const Options> options) {
  return std::make_unique<RuleLoopsOf<Rule>>(std::move(options));
}

}  // namespace rowgrad
