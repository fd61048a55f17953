#pragma once

// Losses that compare each target with a few sampled classes instead of all. They read and
// differentiate only the rows of targets and samples, so their cost does not depend on the number
// of classes. Tables get row gradients.
//
// Samples with the id of their target are ignored, like the target itself if it is ignore_index. A
// mean over no targets is 0. Wrong shapes, ids out of range and empty sets of samples throw
// std::invalid_argument before anything changes.

#include <cstdint>
#include <optional>

#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/tensor/negative_sampler.hpp>

namespace rowgrad {

/// Options of negative_sampling_loss().
struct NegativeSamplingOptions {
  LossReduction reduction = LossReduction::kMean;  // over unmasked targets; kNone sums each row's
  double negative_weight = 1;  // factor of the losses of negatives, finite, >= 0
  std::optional<std::int32_t> ignore_index = -100;
  /// [rows], if rows of x have bags of targets, as for embedding_bag(): row i has the targets from
  /// offsets[i] on, up to the next offset or the end.
  std::optional<Ids> offsets = std::nullopt;
};

/// Options of sampled_softmax_loss().
struct SampledSoftmaxOptions {
  LossReduction reduction = LossReduction::kMean;  // over unmasked targets
  std::optional<std::int32_t> ignore_index = -100;
};

/// Returns −log σ(x · w_target) − negative_weight Σ log σ(−x · w_negative) (Mikolov et al. 2013,
/// "Distributed Representations of Words and Phrases and their Compositionality"): x [..., width],
/// weight [classes, width], targets [...], negatives [count] for all targets, or [..., count]. With
/// offsets, x is [rows, width], and targets are [targets]. Each row is read once for all its
/// targets, and multiplied with shared negatives once.
Variable negative_sampling_loss(const Variable& x, const Variable& weight, const Ids& targets,
                                const Ids& negatives, const NegativeSamplingOptions& options = {});

/// Returns the cross-entropy over the target and the samples, in nats. Each sample's logit x · w +
/// bias is reduced by the log of its expected count, so that the sum of exponentials has the sum
/// over all classes as its expectation (Bengio & Senécal 2003; Jean et al. 2015). bias [classes]
/// gets a dense gradient, a table [classes, 1] a row gradient. Evaluate with
/// linear_cross_entropy().
Variable sampled_softmax_loss(const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias, const Ids& targets,
                              const NegativeSamples& samples,
                              const SampledSoftmaxOptions& options = {});

}  // namespace rowgrad
