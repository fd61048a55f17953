#pragma once

// An optimizer made from an update rule.

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/optim/optimized_parameter.hpp>
#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad {

/// What is the same for all rules: how a step of all parameters goes, and saving and loading.
class RuleEngine : public Optimizer {
 public:
  ~RuleEngine() override;  // visits no rows: see RuleOptimizer
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
  /// An optimizer with this rule, and no parameters yet.
  explicit RuleEngine(const RuleFacts& rule) : rule_(rule) {}

  /// Adds parameters, each with its own `loops`. Throws like Optimizer::add_parameters, and then
  /// changes nothing.
  void add_optimized(const std::vector<Parameter*>& parameters, const RuleLoops& loops);

  /// Throws std::logic_error if the rule does not do in a step without gradient what its deferral()
  /// promises: that nothing changes, or that the change is linear.
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

/// Applies a rule (update_rule.hpp) to every trainable parameter that has a gradient, dense or
/// rows; with row gradients as RowUpdates says (optimized_parameter.hpp). If hardly any two steps
/// are alike (under a schedule, or with Adam's bias corrections), the history of steps is limited:
/// after thousands of them, each step also brings a few stale rows up to date, those of
/// the oldest steps. Rows that these steps do not change are left out.
///
/// The destructor visits no rows: deferred updates and the state they need stay with the parameter.
/// Before another optimizer changes a table, the deferred steps are applied to the rows that ever
/// had a gradient or, if these steps change others too, as weight decay does, to all rows. Rows
/// that never had a gradient get no optimizer state then, except by SGD with momentum and decay or
/// by replayed steps.
template <class Rule>
class RuleOptimizer : public RuleEngine {
  static_assert(UpdateRule<Rule>,
                "the rule lacks something of what RuleDefaults (update_rule.hpp) lists");
  static_assert(kListsItsMembers<Rule>,
                "all data members of a rule must be of type `real` and listed in members(rule)");
  static_assert(Rule::kSlots.size() <= kMaxSlots && sizeof(Rule) <= 32 * sizeof(real),
                "a rule has at most 8 slots and 32 members");

 public:
  using Options = typename Rule::Options;  // the options of the rule

  /// Parameters with options of their own.
  struct Group {
    std::vector<Parameter*> parameters = {};  // at least one
    Options options = {};                     // the options of all of them
  };

  /// Throws std::invalid_argument for an option outside its range, an empty list, a null parameter,
  /// and one that is given twice; std::logic_error for a rule whose deferral() is wrong.
  explicit RuleOptimizer(std::vector<Parameter*> parameters, const Options& options = {})
      : RuleOptimizer(std::vector<Group>{{std::move(parameters), options}}) {}

  /// The same, for a list in braces.
  RuleOptimizer(std::initializer_list<Parameter*> parameters, const Options& options = {})
      : RuleOptimizer(std::vector<Parameter*>(parameters), options) {}

  /// Groups of parameters, each with its own options.
  explicit RuleOptimizer(const std::vector<Group>& groups) : RuleEngine(facts()) {
    for (const Group& group : groups) check(group.options);
    for (const Group& group : groups) add(group);
    check_argument(!parameters().empty(), "Optimizer: there are no parameters");
  }

  /// Adds a group. Throws like the constructor, and then changes nothing.
  void add_group(const Group& group) {
    check(group.options);
    check_argument(!group.parameters.empty(), "Optimizer: there are no parameters");
    add(group);
  }

  std::size_t group_count() const override { return options_.size(); }

  /// The options of a group. New options take effect in the next step. Throws std::invalid_argument
  /// for a group that does not exist and for an option outside its range.
  const Options& options(std::size_t group = 0) const {
    check_argument(group < options_.size(), Rule::kName, ": there is no group ", group,
                   ", expected a number below ", options_.size());
    return *options_[group];
  }
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

  std::vector<std::shared_ptr<Options>> options_;  // shared with the loops of their parameters
};

// Not in the class, so that `extern template class` keeps the loops of a rule out of programs:
// those of the library are compiled for speed, and the linker would take whichever it meets first.
template <class Rule>
std::unique_ptr<RuleLoops> RuleOptimizer<Rule>::loops(std::shared_ptr<const Options> options) {
  return std::make_unique<RuleLoopsOf<Rule>>(std::move(options));
}

}  // namespace rowgrad
