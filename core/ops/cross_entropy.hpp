#pragma once

#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

enum class LossReduction { kMean, kSum };

struct CrossEntropyOptions {
  LossReduction reduction = LossReduction::kMean;  // over the targets that are not ignored
  /// Positions with this target do not count.
  std::optional<std::int32_t> ignore_index = std::nullopt;
};

/// −log softmax(logits)[target], in nats, averaged or summed: logits [..., classes], targets [...]
/// → one number. Softmax, logarithm and their gradients are computed as one, without overflow and
/// without a table of probabilities. Throws std::invalid_argument for shapes that do not fit, a
/// target outside the classes, and a mean over no targets.
Variable cross_entropy(const Variable& logits, const Ids& targets,
                       const CrossEntropyOptions& options = {});

/// cross_entropy(linear(x, weight, bias), targets, options) with logits that are never all in
/// memory, and for less time: x [..., inputs], weight [classes, inputs], bias [classes], targets
/// [...] → one number. The gradients are computed with the loss, not by backward, unless no input
/// needs one; so to evaluate, use a tape that is for inference. Throws like those two.
Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias, const Ids& targets,
                              const CrossEntropyOptions& options = {});

}  // namespace rowgrad
