#pragma once

// A linear layer. Shapes that do not fit, and sizes that are 0 or too large for memory, throw
// std::invalid_argument.

#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

struct LinearOptions {
  bool bias = true;  // add a bias
};

/// Options of Linear::add_lora().
struct LoraOptions {
  std::size_t rank = 8;  // the rank of B · A, at least 1
  double alpha = 16;     // B · A is multiplied by alpha / rank
};

/// A linear layer: x [..., inputs] → x · weightᵀ + bias [..., outputs]. Parameters: weight
/// [outputs, inputs] and bias [outputs], both from uniform(−1/√inputs, 1/√inputs).
///
/// With a low-rank adapter (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"),
/// the effective weight is weight + alpha / rank · B · A, and only A and B are trained. A, lora_a
/// [rank, inputs], starts from the same uniform distribution, and B, lora_b [outputs, rank], from
/// zeros, so a new adapter changes nothing. lora.hpp adds adapters to a model.
class Linear : public Layer {
 public:
  /// Draws weight and bias from `random`.
  Linear(std::size_t inputs, std::size_t outputs, Random& random,
         const LinearOptions& options = {});

  /// Starts from a weight [outputs, inputs] and, if given, a bias [outputs].
  explicit Linear(Tensor weight_start, std::optional<Tensor> bias_start = std::nullopt);

  /// Borrows the weight [outputs, inputs] of another layer, which must outlive this one, and owns
  /// only the bias. Used for heads tied to an embedding (Press & Wolf 2017, "Using the Output
  /// Embedding to Improve Language Models").
  Linear(Parameter& borrowed, Random& random, const LinearOptions& options = {});

  Variable forward(const Variable& x);  // [..., inputs] → [..., outputs]

  /// Returns cross_entropy(forward(x), targets, options), but is faster and never stores all
  /// logits: see linear_cross_entropy.
  Variable cross_entropy(const Variable& x, const Ids& targets,
                         const CrossEntropyOptions& options = {});

  /// Adds an adapter, whose A is drawn from `random`, and freezes weight and bias. Throws
  /// std::logic_error if the layer has an adapter or borrows its weight, whose owner would ignore
  /// the adapter.
  void add_lora(Random& random, const LoraOptions& options = {});
  /// Returns true if the layer has an adapter.
  bool has_lora() const { return lora_scale.has_value(); }

  /// Throws if add_lora would throw.
  void check_lora(const LoraOptions& options) const;

  /// Adds the adapter, if any, to the weight, which stays frozen, and removes the adapter.
  void merge_lora();

 private:
  std::optional<Variable> bias_on(Tape& tape);
  Variable lora_down(const Variable& x);
  void start_bias(Random& random, const LinearOptions& options);

  std::optional<Parameter> own_weight_;

 public:
  Parameter& weight;                 // [outputs, inputs], owned or borrowed
  std::optional<Parameter> bias;     // [outputs]
  std::optional<Parameter> lora_a;   // A: [rank, inputs]
  std::optional<Parameter> lora_b;   // B: [outputs, rank], from zeros
  std::optional<Buffer> lora_scale;  // [1], alpha / rank
};

}  // namespace rowgrad
