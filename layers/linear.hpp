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
  bool bias = true;  // whether a bias is added
};

/// Options of Linear::add_lora().
struct LoraOptions {
  std::size_t rank = 8;  // the rank of B · A, at least 1
  double alpha = 16;     // B · A is multiplied by alpha / rank
};

/// x [..., inputs] → x · weightᵀ + bias [..., outputs]. Parameters: weight [outputs, inputs] and
/// bias [outputs], both initialised from uniform(−1/sqrt(inputs), 1/sqrt(inputs)).
///
/// With a low-rank adapter (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"),
/// the weight is weight + alpha / rank · B · A, of which only A and B are trained: lora_a [rank,
/// inputs], from the same uniform distribution, and lora_b [outputs, rank], from zeros, so that
/// nothing changes at first. lora.hpp puts them into a model.
class Linear : public Layer {
 public:
  /// Draws weight and bias from uniform(−1/√inputs, 1/√inputs).
  Linear(std::size_t inputs, std::size_t outputs, Random& random,
         const LinearOptions& options = {});

  /// Starts from these values [outputs, inputs] and, if it is to have a bias, [outputs].
  explicit Linear(Tensor weight_start, std::optional<Tensor> bias_start = std::nullopt);

  /// Borrows its weight [outputs, inputs] from another layer, which must outlive this one, and owns
  /// only its bias: an output head tied to an embedding (Press & Wolf 2017, "Using the Output
  /// Embedding to Improve Language Models").
  Linear(Parameter& borrowed, Random& random, const LinearOptions& options = {});

  Variable forward(const Variable& x);  // [..., inputs] → [..., outputs]

  /// cross_entropy(forward(x), targets, options), but faster and without ever having all logits in
  /// memory: see linear_cross_entropy.
  Variable cross_entropy(const Variable& x, const Ids& targets,
                         const CrossEntropyOptions& options = {});

  /// Adds an adapter, whose A is drawn from `random`, and freezes weight and bias. Throws
  /// std::logic_error if there is one already, and for a borrowed weight, whose owner would not
  /// know of it.
  void add_lora(Random& random, const LoraOptions& options = {});
  /// Whether it has an adapter.
  bool has_lora() const { return lora_scale.has_value(); }

  /// Throws what add_lora would.
  void check_lora(const LoraOptions& options) const;

  /// Adds the adapter's product to the weight, which stays frozen, and removes the adapter, if
  /// there is one.
  void merge_lora();

 private:
  std::optional<Variable> bias_on(Tape& tape);
  Variable lora_down(const Variable& x);
  void start_bias(Random& random, const LinearOptions& options);

  std::optional<Parameter> own_weight_;

 public:
  Parameter& weight;                 // its own or the borrowed one
  std::optional<Parameter> bias;     // [outputs]
  std::optional<Parameter> lora_a;   // A: [rank, inputs]
  std::optional<Parameter> lora_b;   // B: [outputs, rank], from zeros
  std::optional<Buffer> lora_scale;  // [1], alpha / rank
};

}  // namespace rowgrad
