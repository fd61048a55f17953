#pragma once

// What optimizers share. An optimizer borrows parameters, which must outlive it, and owns its
// state; once a parameter was destroyed, whatever needs it throws std::logic_error. Those of the
// library are update rules: see rule_optimizer.hpp.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/tensor/checkpoint.hpp>

namespace rowgrad {

class Tape;

class Optimizer : private ParameterUser {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer();

  /// Forgets every gradient. Its cost does not depend on the parameters' sizes.
  void zero_grad();

  /// Updates every trainable parameter that has a gradient; the others stay as they are. Throws
  /// before anything is changed.
  virtual void step() = 0;

  const std::vector<Parameter*>& parameters() const { return parameters_; }

  /// Throws std::logic_error that names the first trainable parameter on the tape which is none of
  /// the optimizer's: it would never be trained. Most likely its layer is a plain member of the
  /// model instead of a Part, so that the model does not list it.
  void check_trains_all(const Tape& tape) const;

  /// How many groups of parameters there are, each with options of its own; and their learning
  /// rates, the new one from the next step on. Throws std::invalid_argument for a group that is not
  /// there, and a rate that is negative or not finite.
  virtual std::size_t group_count() const = 0;
  virtual double learning_rate(std::size_t group = 0) const = 0;
  virtual void set_learning_rate(double rate, std::size_t group = 0) = 0;

  /// How many rows of tables were read, updated or settled because of row gradients so far, a row
  /// over which n steps were replayed counted n times more: the work, whatever the machine.
  virtual std::uint64_t rows_visited() const = 0;

  /// What the optimizer keeps between steps, by parameter ("token.weight.momentum"); its options
  /// are not part of it. Loading an empty state begins anew. Save and load the parameters' values
  /// with it, and load them first. Both throw std::invalid_argument for parameters that share a
  /// name, the second also for a name, a shape or a number that does not fit; then nothing changes.
  virtual Checkpoint state_dict() const = 0;
  virtual void load_state_dict(const Checkpoint& state) = 0;

 protected:
  /// Throws std::invalid_argument for no parameters, a null one, and one that is given twice.
  explicit Optimizer(std::vector<Parameter*> parameters);

  /// The same, and then nothing changes.
  void add_parameters(const std::vector<Parameter*>& parameters);

  /// Throws std::logic_error that names a parameter which was destroyed.
  void check_parameters_live() const;

 private:
  void forget(const Parameter& parameter) noexcept override;

  std::vector<Parameter*> parameters_;
  bool lost_ = false;      // whether one of them was destroyed
  std::string lost_name_;  // and its name
};

}  // namespace rowgrad
