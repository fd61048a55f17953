#pragma once

// The interface of all optimizers. An optimizer borrows parameters, which must outlive it, and owns
// its state. Once a parameter is destroyed, functions that need it throw std::logic_error. The
// library's optimizers are made from update rules: see rule_optimizer.hpp.

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
  virtual ~Optimizer();  // its parameters do not know of it any more

  /// Clears all gradients. The cost does not depend on the sizes of the parameters.
  void zero_grad();

  /// Updates every trainable parameter that has a gradient; the others do not change. Whatever is
  /// wrong is refused before anything changes; where memory or a disk fails in the middle, load the
  /// state that was saved last.
  virtual void step() = 0;

  const std::vector<Parameter*>& parameters() const { return parameters_; }  // in the order given

  /// Throws std::logic_error naming the first trainable parameter on the tape that this optimizer
  /// does not have, and so would never train. Most likely its layer is a plain member of the model
  /// instead of a Submodule, so the model does not list it.
  void check_trains_all(const Tape& tape) const;

  /// The reverse, after backward: throws std::logic_error naming the first trainable parameter of
  /// this optimizer that has no gradient. Most likely forward forgot its layer. The rows of a table
  /// count as used even if no id was looked up. Not for losses that use their parameters in turn.
  void check_uses_all() const;

  /// The number of parameter groups, each with its own options, and the learning rate of a group. A
  /// new rate takes effect in the next step. Throws std::invalid_argument for a group that does not
  /// exist, and for a rate that is negative or not finite.
  virtual std::size_t group_count() const = 0;
  virtual double learning_rate(std::size_t group = 0) const = 0;
  virtual void set_learning_rate(double rate, std::size_t group = 0) = 0;

  /// The share of each value that the next step takes from values without a gradient by itself, as
  /// weight decay does; none if that is not known, as where decay is a part of the gradient.
  virtual std::optional<double> decay_without_gradient(const Parameter&) const {
    return std::nullopt;
  }

  /// Returns false if the next step leaves values without a gradient as they are.
  virtual bool changes_without_gradient(const Parameter&) const { return true; }

  /// Makes the next step of the parameter call `watcher`, once, for each row of its row gradient.
  /// Returns false if this optimizer cannot do so.
  virtual bool watch_next_step(const Parameter&,
                               const std::shared_ptr<RowWatcher>& /*watcher*/) const {
    return false;
  }

  /// How many table rows have been read, updated or brought up to date because of row gradients,
  /// plus one per step replayed on a row: a measure of work that is the same on any machine.
  virtual std::uint64_t rows_visited() const = 0;

  /// The state kept between steps, by parameter ("token.weight.momentum"), without the options,
  /// which may differ. Save the values of the parameters with it, and load them first: if updates
  /// of rows are deferred, other values are refused. A state that lacks an array which the options
  /// need, such as amsgrad's largest second moment, is refused too. An untrusted state may take
  /// long: it may claim any number of steps, some of which are replayed. Both throw
  /// std::invalid_argument if two parameters have the same name; loading also if a name, a shape or
  /// a value does not fit, and then changes nothing. check_state_dict() throws that before the
  /// values of the parameters are loaded, if an optimizer has its own.
  virtual StateDict state_dict() const = 0;
  virtual void load_state_dict(const StateDict& state) = 0;
  virtual void check_state_dict(const StateDict& /*state*/) const {}

 protected:
  Optimizer() = default;  // without parameters, which are added then

  /// Throws std::invalid_argument for an empty list, a null parameter, and one that is given twice.
  explicit Optimizer(std::vector<Parameter*> parameters);

  /// Adds parameters. Throws what the constructor does, and then changes nothing.
  void add_parameters(const std::vector<Parameter*>& parameters);

  /// Throws std::logic_error naming a parameter if one was destroyed.
  void check_parameters_live() const;

  /// For an optimizer that keeps more of its parameters: called before one is destroyed.
  void forget(const Parameter& parameter) noexcept override;

 private:
  friend class LearningRateSchedule;

  // Returns a handle that one schedule keeps as long as it sets the learning rates; null if another
  // schedule has one. Shared, as optimizer and schedule may be destroyed in any order.
  std::shared_ptr<void> claim_rates();

  std::weak_ptr<void> schedule_;  // the handle of the schedule that sets the learning rates
  std::vector<Parameter*> parameters_;
  bool lost_ = false;      // whether a parameter was destroyed
  std::string lost_name_;  // its name
};

}  // namespace rowgrad
