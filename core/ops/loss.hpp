#pragma once

// Softmax along one axis, and losses, which are scalars unless the reduction is kNone. Wrong
// shapes, axes and classes throw std::invalid_argument.

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
  kNone   // weight · loss for each target, in the shape of the targets; 0 for masked targets
};

/// Options of cross_entropy() and nll_loss().
struct CrossEntropyOptions {
  /// Reduces the losses of unmasked targets. A mean of no losses is 0 and has zero gradients.
  LossReduction reduction = LossReduction::kMean;
  /// Masks targets with this value, whatever their logits are. Use it for padding, or for prompts
  /// not to be learned.
  std::optional<std::int32_t> ignore_index = -100;
  /// Weights of the losses, finite and not negative. class_weights [classes] has one per class
  /// (PyTorch's `weight`), target_weights has the shape of the targets. If both are given, they are
  /// multiplied.
  std::optional<Tensor> class_weights = std::nullopt;
  std::optional<Tensor> target_weights = std::nullopt;
  /// Distributes this share of the target's probability over all classes (Szegedy et al. 2016).
  /// Class weights apply to each class, but a mean divides by the weights of the targets, as in
  /// PyTorch.
  double label_smoothing = 0;
};

/// Returns the divisor of the mean over these targets: the sum of the weights of unmasked targets
/// (by default, their number). Checks targets like cross_entropy().
double total_weight(const Ids& targets, std::size_t classes,
                    const CrossEntropyOptions& options = {});

/// Returns −log softmax(logits)[target], in nats: logits [..., classes], targets [...]. Neither
/// overflows nor stores probabilities.
Variable cross_entropy(const Variable& logits, const Ids& targets,
                       const CrossEntropyOptions& options = {});

/// Returns −Σ probability · log softmax(logits) over the classes. Both have the same shape. A mean
/// divides by the number of rows. Ignores ignore_index; target_weights must not be set.
Variable cross_entropy(const Variable& logits, const Variable& probabilities,
                       const CrossEntropyOptions& options = {});

/// Returns −log_probabilities[target], for values of log_softmax(): log_probabilities [...,
/// classes], targets [...]. label_smoothing must be 0.
Variable nll_loss(const Variable& log_probabilities, const Ids& targets,
                  const CrossEntropyOptions& options = {});

/// Computes cross_entropy(linear(x, weight, bias), targets, options), but faster and without
/// storing all logits: x [..., inputs], weight [classes, inputs], bias [classes], targets [...].
/// Rows with masked targets are skipped. If an input needs a gradient, the gradients are computed
/// together with the loss, not in backward, so use an inference tape for evaluation. With kNone or
/// label_smoothing, calls linear() and stores all logits.
Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias, const Ids& targets,
                              const CrossEntropyOptions& options = {});

// The following losses compare elements. Input and target must have the same shape, and at least
// one element for a mean.

/// Options of binary_cross_entropy() and binary_cross_entropy_with_logits().
struct BinaryCrossEntropyOptions {
  LossReduction reduction = LossReduction::kMean;  // divides by the number of elements
  /// Factors of the losses, and of the terms target · log(…) (only for logits). Their shapes must
  /// broadcast to the shape of the targets.
  std::optional<Tensor> weight = std::nullopt;
  std::optional<Tensor> pos_weight = std::nullopt;
};

/// Returns the loss of independent binary decisions, −target log sigmoid(logits) − (1 − target)
/// log(1 − sigmoid(logits)), for targets in [0, 1]. Does not overflow. Without pos_weight, an
/// infinite logit for the right class gives a loss of 0.
Variable binary_cross_entropy_with_logits(const Variable& logits, const Variable& targets,
                                          const BinaryCrossEntropyOptions& options = {});
inline Variable binary_cross_entropy_with_logits(const Variable& logits, const Variable& targets,
                                                 LossReduction reduction) {
  return binary_cross_entropy_with_logits(logits, targets,
                                          BinaryCrossEntropyOptions{.reduction = reduction});
}
/// Returns the same loss for probabilities in [0, 1]. Logarithms are at least −100, as in PyTorch.
Variable binary_cross_entropy(const Variable& input, const Variable& targets,
                              const BinaryCrossEntropyOptions& options = {});

/// Return (input − target)² or |input − target|.
Variable mse_loss(const Variable& input, const Variable& target,
                  LossReduction reduction = LossReduction::kMean);
Variable l1_loss(const Variable& input, const Variable& target,
                 LossReduction reduction = LossReduction::kMean);

/// Return d² / 2 for d = |input − target| up to delta, else delta · (d − delta / 2) (Huber 1964).
/// smooth_l1_loss() divides by delta, called beta (Girshick 2015); beta 0 means l1_loss().
Variable huber_loss(const Variable& input, const Variable& target, double delta = 1,
                    LossReduction reduction = LossReduction::kMean);
Variable smooth_l1_loss(const Variable& input, const Variable& target, double beta = 1,
                        LossReduction reduction = LossReduction::kMean);

/// Options of kl_div().
struct KlDivOptions {
  LossReduction reduction = LossReduction::kMean;  // divides by the number of elements
  bool batch_mean = false;  // divides by the length of axis 0 instead: PyTorch's "batchmean"
  bool log_target = false;  // the targets are logarithms of probabilities
};

/// Returns target · (log target − input), whose sum is the Kullback–Leibler divergence if inputs
/// are logarithms of probabilities. A target of 0 gives 0.
Variable kl_div(const Variable& input, const Variable& target, const KlDivOptions& options = {});

/// Returns Σ a · b / (max(norm(a), epsilon) · max(norm(b), epsilon)) along one axis of the common
/// shape, to which a and b are broadcast. The axis is removed.
Variable cosine_similarity(const Variable& a, const Variable& b, int axis = 1,
                           double epsilon = 1e-8);

}  // namespace rowgrad
