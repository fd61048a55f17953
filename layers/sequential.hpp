#pragma once

// Sequential, Mlp, and small layers without parameters. Invalid sizes throw std::invalid_argument.

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/shape.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// A layer that, in training mode, zeroes each element with probability p and divides the others by
/// 1 − p; in evaluation mode, it returns x. Uses the tape's random number generator.
class Dropout : public Layer {
 public:
  /// Requires 0 ≤ p ≤ 1.
  explicit Dropout(double p) : p_(p) {
    check_argument(p >= 0 && p <= 1, "Dropout: p is ", p, ", expected 0 to 1");
  }

  /// Throws std::logic_error if dropout needs a generator and the tape has none.
  Variable forward(const Variable& x) { return training() ? dropout(x, p_) : x; }

 private:
  double p_;
};

/// A layer that concatenates each position with the steps − 1 positions before it, so that the next
/// layer sees the last `steps` tokens at once (Bengio et al. 2003): see causal_unfold().
class ConcatPrevious : public Layer {
 public:
  /// Requires: steps ≥ 1.
  explicit ConcatPrevious(std::size_t steps) : steps_(steps) {
    check_argument(steps > 0, "ConcatPrevious: steps is 0, expected at least 1");
  }

  /// [..., width] → [..., steps · width]
  Variable forward(const Variable& x) { return causal_unfold(x, steps_); }

 private:
  std::size_t steps_;
};

/// Former name of ConcatPrevious.
using LookBack [[deprecated("use ConcatPrevious")]] = ConcatPrevious;

using VariableFunction = std::function<Variable(const Variable&)>;  // a step of Sequential

/// A sequence of steps, each a layer with forward(const Variable&) or a plain function. Layers are
/// named by their index: "0.weight", "2.weight". Without steps, forward returns x.
class Sequential : public Layer {
 public:
  Sequential() = default;

  /// Appends a new layer and returns it.
  template <class L, class... Arguments>
  L& add(Arguments&&... arguments) {
    auto owned = std::make_unique<Submodule<L>>(*this, std::to_string(steps_.size()),
                                                std::forward<Arguments>(arguments)...);
    L& layer = *owned;
    layers_.push_back(std::move(owned));
    steps_.emplace_back([&layer](const Variable& x) { return layer.forward(x); });
    return layer;
  }

  /// Appends a function such as `relu`, or a lambda.
  void add(VariableFunction function) { steps_.push_back(std::move(function)); }

  Variable forward(const Variable& x);  // applies all steps in order

  std::size_t size() const { return steps_.size(); }  // returns the number of steps

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<VariableFunction> steps_;
};

struct MlpOptions {
  VariableFunction activation = relu;  // function between two linear layers
  bool activate_last = false;          // also activate the last linear layer
  double dropout = 0;                  // dropout probability after each activation
};

/// A multi-layer perceptron: linear layers of the given widths with activations between them.
/// Mlp({8, 32, 2}, random) maps [..., 8] to [..., 2].
class Mlp : public Sequential {
 public:
  /// Requires at least two widths, all above 0.
  Mlp(const std::vector<std::size_t>& widths, Random& random, const MlpOptions& options = {});
};

}  // namespace rowgrad
