#pragma once

// A linear layer. Sizes of 0 or more than memory could hold, and shapes that do not fit, throw
// std::invalid_argument.

#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

struct LinearOptions {
  bool bias = true;
};

/// x [..., inputs] → x · weightᵀ + bias [..., outputs]. Parameters: weight [outputs, inputs] and
/// bias [outputs], both initialised from uniform(−1/sqrt(inputs), 1/sqrt(inputs)).
class Linear : public Layer {
 public:
  Linear(std::size_t inputs, std::size_t outputs, Random& random,
         const LinearOptions& options = {});

  /// Starts from these values [outputs, inputs] and, if it is to have a bias, [outputs].
  explicit Linear(Tensor weight_start, std::optional<Tensor> bias_start = std::nullopt);

  /// Borrows its weight [outputs, inputs] from another layer, which must outlive this one, and owns
  /// only its bias: an output head tied to an embedding (Press & Wolf 2017, "Using the Output
  /// Embedding to Improve Language Models").
  Linear(Parameter& borrowed, Random& random, const LinearOptions& options = {});

  Variable forward(const Variable& x);

  /// cross_entropy(forward(x), targets, options), but faster and without ever having all logits in
  /// memory: see linear_cross_entropy.
  Variable cross_entropy(const Variable& x, const Ids& targets,
                         const CrossEntropyOptions& options = {});

 private:
  std::optional<Variable> bias_on(Tape& tape);
  void start_bias(Random& random, const LinearOptions& options);

  std::optional<Parameter> own_weight_;

 public:
  Parameter& weight;  // its own or the borrowed one
  std::optional<Parameter> bias;
};

}  // namespace rowgrad
