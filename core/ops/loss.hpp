#pragma once

// Softmax along one axis, and losses, which are scalars. Wrong shapes, axes and classes, and a mean
// of no elements throw std::invalid_argument.

#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/variable.hpp>
#include <rowgrad/core/ops/reduction.hpp>

namespace rowgrad {

/// Return exp(x) / Σ exp(x) along one axis, or its logarithm. Large values do not overflow.
Variable softmax(const Variable& x, int axis = -1);
Variable log_softmax(const Variable& x, int axis = -1);

/// Returns log Σ exp(x) along one axis, which is removed unless `keep` is kYes. An empty axis gives
/// −∞.
Variable logsumexp(const Variable& x, int axis = -1, KeepAxes keep = KeepAxes::kNo);

/// The reduction of the losses of all targets. Weights are 1 by default.
enum class LossReduction {
  kMean,  // Σ weight · loss / Σ weight
  kSum,   // Σ weight · loss
  kNone   // weight · loss of each target
};

/// Options of cross_entropy().
struct CrossEntropyOptions {
  LossReduction reduction = LossReduction::kMean;  // over unmasked targets
  /// Masks targets with this value, whatever their logits are. Use it for padding, or for prompts
  /// not to be learned.
  std::optional<std::int32_t> ignore_index = -100;
  /// Weights of the losses, finite and not negative. class_weights [classes] has one per class
  /// (PyTorch's `weight`), target_weights has the shape of the targets. If both are given, they are
  /// multiplied.
  std::optional<Tensor> class_weights = std::nullopt;
  std::optional<Tensor> target_weights = std::nullopt;
};

/// Returns the divisor of the mean over these targets: the sum of the weights of unmasked targets
/// (by default, their number). Checks targets like cross_entropy().
double total_weight(const Ids& targets, std::size_t classes,
                    const CrossEntropyOptions& options = {});

/// Returns −log softmax(logits)[target], in nats, averaged or summed: logits [..., classes],
/// targets [...] → a scalar. Neither overflows nor stores probabilities.
Variable cross_entropy(const Variable& logits, const Ids& targets,
                       const CrossEntropyOptions& options = {});

/// Computes cross_entropy(linear(x, weight, bias), targets, options), but faster and without
/// storing all logits: x [..., inputs], weight [classes, inputs], bias [classes], targets [...] → a
/// scalar. Rows with masked targets are skipped. If an input needs a gradient, the gradients are
/// computed together with the loss, not in backward, so use an inference tape for evaluation.
Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias, const Ids& targets,
                              const CrossEntropyOptions& options = {});

/// Returns the loss of independent binary decisions, −target log sigmoid(logits) − (1 − target)
/// log(1 − sigmoid(logits)), averaged or summed, for targets in [0, 1]. The shapes must be equal.
/// Does not overflow; an infinite logit for the right class gives a loss of 0.
Variable binary_cross_entropy_with_logits(const Variable& logits, const Variable& targets,
                                          LossReduction reduction = LossReduction::kMean);

/// Returns (input − target)², averaged or summed. The shapes must be equal.
Variable mse_loss(const Variable& input, const Variable& target,
                  LossReduction reduction = LossReduction::kMean);

}  // namespace rowgrad
