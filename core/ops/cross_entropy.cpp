#include <algorithm>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/softmax.hpp>
#include <rowgrad/core/ops/cross_entropy.hpp>

namespace rowgrad {

Variable cross_entropy(const Variable& logits, const Ids& targets,
                       const CrossEntropyOptions& options) {
  const Shape& shape = logits.shape();
  check_argument(shape.size() == targets.dimension() + 1 &&
                     std::equal(targets.shape().begin(), targets.shape().end(), shape.begin()),
                 "cross_entropy: logits have shape ", bracketed(shape), ", expected ",
                 bracketed(targets.shape()), " of the targets and one more axis");
  const std::size_t classes = shape.back();
  const std::size_t rows = targets.size();
  const auto ignored = options.ignored_target;
  std::size_t counted = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::int32_t target = targets.data()[i];
    if (target == ignored) continue;
    if (target < 0 || static_cast<std::size_t>(target) >= classes)
      check_argument(false, "cross_entropy: target ", target, " at ",
                     bracketed(index_at(targets.shape(), i)), " is outside the ", classes,
                     " classes");
    ++counted;
  }
  const bool mean = options.reduction == LossReduction::kMean;
  check_argument(counted > 0 || !mean, "cross_entropy: none of ", rows,
                 " targets counts, so there is no mean");

  std::vector<double, PoolAllocator<double>> log_sums(rows);
  kernels::log_sum_exp_rows(logits.value().data(), rows, classes, log_sums.data());
  double total = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::int32_t target = targets.data()[i];
    if (target == ignored) continue;
    const real logit = logits.value().data()[i * classes + static_cast<std::size_t>(target)];
    total += log_sums[i] - logit;
  }
  const double weight = mean ? 1.0 / static_cast<double>(counted) : 1.0;

  return record(
      "cross_entropy", {logits}, scalar(static_cast<real>(total * weight)),
      [targets, ignored, weight, rows, classes, log_sums = std::move(log_sums)](Backward& node) {
        Tensor gradient = empty(node.input_shape(0));
        const auto scale = static_cast<real>(weight * *node.gradient().data());
        kernels::cross_entropy_rows_backward(node.input(0).data(), log_sums.data(), targets.data(),
                                             ignored, scale, rows, classes, gradient.data());
        node.give(0, std::move(gradient));
      });
}

}  // namespace rowgrad
