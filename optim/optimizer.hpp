#pragma once

// What optimizers share. An optimizer borrows parameters, which must outlive it, and owns its
// state.

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/kernels/parallel.hpp>

namespace rowgrad {

class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// Forgets every gradient. Its cost does not depend on the parameters' sizes.
  void zero_grad();

  /// Updates every trainable parameter that has a gradient; the others stay as they are. Throws
  /// before anything is changed.
  virtual void step() = 0;

  /// How many groups of parameters there are, each with options of its own; and their learning
  /// rates, the new one from the next step on. Throws std::invalid_argument for a group that is not
  /// there, and a rate that is negative or not finite.
  virtual std::size_t group_count() const = 0;
  virtual double learning_rate(std::size_t group = 0) const = 0;
  virtual void set_learning_rate(double rate, std::size_t group = 0) = 0;

  const std::vector<Parameter*>& parameters() const { return parameters_; }

  /// What the optimizer keeps between steps, by name ("momentum.token.weight"), to be saved, and
  /// its return; nothing, unless overridden. Throws std::invalid_argument for a name or shape that
  /// does not fit, and for parameters that share a name; then nothing changes.
  virtual std::map<std::string, Tensor> state() const { return {}; }
  virtual void load_state(std::map<std::string, Tensor> state);

 protected:
  /// Throws std::invalid_argument for no parameters, a null one, and one that is given twice.
  explicit Optimizer(std::vector<Parameter*> parameters);

 private:
  std::vector<Parameter*> parameters_;
};

/// Runs an update rule over the numbers of a parameter that have a gradient: all of them for a
/// dense gradient, in pieces over threads; those of each row for a row gradient. The rule is
/// written once: update(offset, count, values, gradient) changes `count` numbers, the first of
/// which is number `offset` of the parameter.
template <class Update>
void visit_gradient(Parameter& parameter, const Update& update) {
  const Gradient& gradient = parameter.gradient();
  if (gradient.is_none()) return;
  real* values = parameter.numbers().data();
  if (gradient.is_dense()) {
    const real* dense = gradient.dense().data();
    kernels::parallel_for(gradient.dense().size(), kernels::kGrainNumbers,
                          [&](std::size_t begin, std::size_t end) {
                            update(begin, end - begin, values + begin, dense + begin);
                          });
    return;
  }
  const RowGradient& rows = gradient.rows();
  const std::size_t width = rows.width();
  kernels::parallel_for(
      rows.size(), kernels::row_grain(width), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          const std::size_t offset = static_cast<std::size_t>(rows.numbers()[i]) * width;
          update(offset, width, values + offset, rows.row(i).data());
        }
      });
}

}  // namespace rowgrad
