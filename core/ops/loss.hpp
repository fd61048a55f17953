#pragma once

// Softmax along one axis, and losses: one number, averaged or summed. Shapes that do not fit, axes
// and classes that are not there, and a mean over nothing throw std::invalid_argument.

#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/variable.hpp>
#include <rowgrad/core/ops/reduction.hpp>

namespace rowgrad {

/// softmax(x) = exp(x) / Σ exp(x) along one axis, and its logarithm; large values do not overflow.
Variable softmax(const Variable& x, int axis = -1);
Variable log_softmax(const Variable& x, int axis = -1);

/// log Σ exp(x) along one axis, which is removed unless it is kept; −∞ for no values.
Variable logsumexp(const Variable& x, int axis = -1, KeepAxes keep = KeepAxes::kNo);

/// Whether a loss is the mean or the sum over the targets that count.
enum class LossReduction {
  kMean,  // the mean
  kSum    // the sum
};

/// Options of cross_entropy().
struct CrossEntropyOptions {
  LossReduction reduction = LossReduction::kMean;  // over the targets that count
  /// Targets that are this do not count, whatever their logits are: the rest of a text that is
  /// shorter than others, or a prompt whose tokens are not to be learned. The default is PyTorch's.
  std::optional<std::int32_t> ignore_index = -100;
  /// Factors for the losses, finite and not negative: [classes], one for each target that is this
  /// class (PyTorch's `weight`), and one for each target, of the targets' shape. Of both, the
  /// product. The mean is Σ factor · loss / Σ factor.
  std::optional<Tensor> class_weights = std::nullopt;
  std::optional<Tensor> target_weights = std::nullopt;
};

/// What the mean over these targets divides by: the sum of the factors of those that count, their
/// number if there are no factors. Targets are checked as by cross_entropy.
double total_weight(const Ids& targets, std::size_t classes,
                    const CrossEntropyOptions& options = {});

/// −log softmax(logits)[target], in nats, averaged or summed: logits [..., classes], targets [...]
/// → a scalar. Softmax and logarithm are fused in both directions, without overflow and without a
/// table of probabilities.
Variable cross_entropy(const Variable& logits, const Ids& targets,
                       const CrossEntropyOptions& options = {});

/// cross_entropy(linear(x, weight, bias), targets, options), but faster and without ever holding
/// all logits in memory: x [..., inputs], weight [classes, inputs], bias [classes], targets [...] →
/// a scalar. Rows whose targets do not count cost nothing. The gradients are computed together with
/// the loss, not by backward, unless no input needs one: use an inference tape for evaluation.
Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias, const Ids& targets,
                              const CrossEntropyOptions& options = {});

/// −target log sigmoid(logits) − (1 − target) log(1 − sigmoid(logits)), averaged or summed, without
/// overflow: the loss of independent yes or no decisions, for targets in [0, 1]. Both have the same
/// shape. An infinite logit of the right class has the loss 0.
Variable binary_cross_entropy_with_logits(const Variable& logits, const Variable& targets,
                                          LossReduction reduction = LossReduction::kMean);

/// (input − target)², averaged or summed; shapes are never broadcast.
Variable mse_loss(const Variable& input, const Variable& target,
                  LossReduction reduction = LossReduction::kMean);

}  // namespace rowgrad
