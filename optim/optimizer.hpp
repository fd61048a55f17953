#pragma once

// The interface of all optimizers. An optimizer owns its state and borrows its parameters, which
// must outlive it: functions that need a destroyed parameter throw std::logic_error. The library's
// optimizers are built from update rules (rule_optimizer.hpp).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>
#include <rowgrad/optim/row_watcher.hpp>

namespace rowgrad {

class Tape;

class Optimizer : private ParameterUser {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer();  // unregisters from the parameters

  /// Clears all gradients. The cost does not depend on the sizes of the parameters.
  void zero_grad();

  /// Updates every trainable parameter that has a gradient. Throws before anything changes, except
  /// if memory runs out or a disk fails. If so, load the last saved state.
  virtual void step() = 0;

  const std::vector<Parameter*>& parameters() const { return parameters_; }  // in the order given

  /// Throws std::logic_error naming the first trainable parameter on the tape that this optimizer
  /// does not have and would therefore never train. The usual cause is a layer that is a plain
  /// member of the model instead of a Submodule, so that the model does not list its parameters.
  void check_trains_all(const Tape& tape) const;

  /// Throws std::logic_error naming the first trainable parameter of this optimizer that has no
  /// gradient after backward. The usual cause is a layer that forward does not use. A table counts
  /// as used even if no id was looked up. Do not call this if steps use different parameters.
  void check_uses_all() const;

  virtual std::size_t group_count() const = 0;  // returns the number of parameter groups

  /// Returns a group's learning rate. Throws std::invalid_argument if the group does not exist.
  virtual double learning_rate(std::size_t group = 0) const = 0;
  /// Sets the rate for the next steps. Also throws if the rate is negative or not finite.
  virtual void set_learning_rate(double rate, std::size_t group = 0) = 0;

  /// Returns the fraction by which the next step shrinks values that have no gradient (weight
  /// decay), or nullopt if it is unknown or differs between values.
  virtual std::optional<double> decay_without_gradient(const Parameter&) const {
    return std::nullopt;
  }

  /// Returns false if the next step does not change values that have no gradient.
  virtual bool changes_without_gradient(const Parameter&) const { return true; }

  /// Lets the next step call `watcher`, if it still exists, for each row of the parameter's row
  /// gradient. Returns false if this optimizer does not support watchers.
  virtual bool watch_next_step(const Parameter&,
                               const std::shared_ptr<RowWatcher>& /*watcher*/) const {
    return false;
  }

  /// Returns the number of table rows that were read, updated or brought up to date, plus one for
  /// each step replayed on a row. This measure is the same on any machine.
  virtual std::uint64_t rows_visited() const = 0;

  /// Returns the optimizer state by parameter ("token.weight.momentum"), without the options. Save
  /// it with the parameters. Throws std::invalid_argument if two parameters have the same name.
  virtual StateDict state_dict() const = 0;

  /// Loads a state; load the parameters first. Throws std::invalid_argument, and changes nothing,
  /// for duplicate parameter names, for an unexpected name, shape or value, for a slot that the
  /// options need but the state lacks, and for deferred steps that do not belong to the parameters'
  /// values. Loading an untrusted state may take long: the state can claim any number of steps,
  /// and some are replayed.
  virtual void load_state_dict(const StateDict& state) = 0;

  /// Throws as load_state_dict() would after the parameters are loaded. The default checks nothing.
  virtual void check_state_dict(const StateDict& /*state*/) const {}

 protected:
  Optimizer() = default;  // call add_parameters() next

  /// Throws std::invalid_argument for an empty list, a null parameter or a duplicate.
  explicit Optimizer(std::vector<Parameter*> parameters);

  /// Adds parameters. Throws like the constructor, without changing anything.
  void add_parameters(const std::vector<Parameter*>& parameters);

  /// Throws std::logic_error naming the parameter that was destroyed, if any.
  void check_parameters_live() const;

  /// Removes a parameter that is about to be destroyed. Overrides must call Optimizer::forget().
  void forget(const Parameter& parameter) noexcept override;

 private:
  friend class LearningRateSchedule;

  // Returns the handle that a schedule keeps while it sets the learning rates, or null if another
  // schedule holds it. The handle is shared: the schedule or the optimizer may be destroyed first.
  std::shared_ptr<void> claim_rates();

  std::weak_ptr<void> schedule_;  // the handle of the schedule that sets the learning rates
  std::vector<Parameter*> parameters_;
  bool lost_ = false;      // true if a parameter was destroyed
  std::string lost_name_;  // name of the destroyed parameter
};

}  // namespace rowgrad
