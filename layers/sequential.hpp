#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

using VariableFunction = std::function<Variable(const Variable&)>;

/// A sequence of steps, each a layer with forward(const Variable&) or a plain function. Layers are
/// named by their position: "0.weight", "2.weight". Without steps, forward returns x.
class Sequential : public Layer {
 public:
  Sequential() = default;

  /// Appends a new layer and returns it.
  template <class L, class... Arguments>
  L& add(Arguments&&... arguments) {
    auto owned = std::make_unique<Part<L>>(*this, std::to_string(steps_.size()),
                                           std::forward<Arguments>(arguments)...);
    L& layer = *owned;
    layers_.push_back(std::move(owned));
    steps_.emplace_back([&layer](const Variable& x) { return layer.forward(x); });
    return layer;
  }

  /// Appends a function such as `relu`, or a lambda.
  void add(VariableFunction function) { steps_.push_back(std::move(function)); }

  Variable forward(const Variable& x);

  std::size_t size() const { return steps_.size(); }

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<VariableFunction> steps_;
};

struct MlpOptions {
  VariableFunction activation = relu;
  bool activate_last = false;  // whether the last linear layer is activated too
  double dropout = 0;          // the probability of dropout after each activation
};

/// A multi-layer perceptron: linear layers of the given widths with activations between them.
/// Mlp({8, 32, 2}, random) maps [..., 8] to [..., 2].
class Mlp : public Sequential {
 public:
  /// Throws std::invalid_argument for fewer than two widths, or a width of 0.
  Mlp(const std::vector<std::size_t>& widths, Random& random, const MlpOptions& options = {});
};

}  // namespace rowgrad
