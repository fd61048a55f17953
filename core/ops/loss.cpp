#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/linear_cross_entropy.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/kernels/softmax.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

using ExpSums = std::vector<kernels::ExpSum, PoolAllocator<kernels::ExpSum>>;

using RowsForward = void (*)(const real*, std::size_t, std::size_t, real*);
using RowsBackward = void (*)(const real*, const real*, std::size_t, std::size_t, real*);

Variable along_rows(OpName op, const Variable& x, int axis, RowsForward forward,
                    RowsBackward backward) {
  const std::size_t rank = x.shape().size();
  const std::size_t along = resolve_axis(op, axis, rank);
  if (along + 1 != rank)  // the kernels work along the last axis
    return transpose(along_rows(op, transpose(x, axis, -1), -1, forward, backward), axis, -1);
  const std::size_t width = x.shape().back();
  const std::size_t rows = x.value().size() / std::max<std::size_t>(width, 1);
  Tensor value = empty(x.shape());
  forward(x.read().data(), rows, width, value.data());
  return record(op, {x}, std::move(value), [backward, rows, width](Backward& node) {
    Tensor gradient = empty(node.output().shape());
    backward(node.output().data(), node.gradient().data(), rows, width, gradient.data());
    node.slot(0).take(std::move(gradient));
  });
}

}  // namespace

Variable softmax(const Variable& x, int axis) {
  return along_rows("softmax", x, axis, kernels::softmax_rows, kernels::softmax_rows_backward);
}

Variable log_softmax(const Variable& x, int axis) {
  return along_rows("log_softmax", x, axis, kernels::log_softmax_rows,
                    kernels::log_softmax_rows_backward);
}

Variable logsumexp(const Variable& x, int axis, KeepAxes keep) {
  const std::size_t rank = x.shape().size();
  const std::size_t along = resolve_axis("logsumexp", axis, rank);
  if (along + 1 != rank) {
    const Variable kept =
        transpose(logsumexp(transpose(x, axis, -1), -1, KeepAxes::kYes), axis, -1);
    return keep == KeepAxes::kYes ? kept : squeeze(kept, axis);
  }
  const std::size_t width = x.shape().back();
  Shape shape = x.shape();
  shape.back() = 1;
  if (keep == KeepAxes::kNo) shape.pop_back();
  Tensor value = empty(shape);
  ExpSums sums(value.size());
  kernels::exp_sum_rows(x.read().data(), sums.size(), width, true, sums.data());
  std::transform(sums.begin(), sums.end(), value.data(),
                 [](const kernels::ExpSum& row) { return static_cast<real>(row.above(0)); });
  return record("logsumexp", {x}, std::move(value),
                [width, sums = std::move(sums)](Backward& node) {
                  Tensor gradient = empty(node.input_shape(0));
                  kernels::log_sum_exp_rows_backward(node.input(0).data(), sums.data(),
                                                     node.gradient().data(), sums.size(), width,
                                                     gradient.data());
                  node.slot(0).take(std::move(gradient));
                });
}

namespace {

using kernels::Simd;

// The unmasked targets with nonzero weight, and their weights.
struct Unmasked {
  std::vector<std::int32_t> rows;  // indices of these targets
  std::vector<real> weights;       // weights of these targets; empty without weight options
  double total = 0;                // sum of the weights
};

void check_weights(const char* caller, const char* name, const std::optional<Tensor>& weights,
                   const Shape& expected) {
  if (!weights) return;
  check_argument(weights->shape() == expected, caller, ": ", name, " has shape ",
                 bracketed(weights->shape()), ", expected ", bracketed(expected));
  const std::span<const real> values(weights->data(), weights->size());
  const auto wrong =
      std::ranges::find_if_not(values, [](real w) { return w >= 0 && std::isfinite(w); });
  check_argument(wrong == values.end(), caller, ": ", name, " has an element ",
                 wrong == values.end() ? 0 : *wrong, ", expected finite weights >= 0");
}

Unmasked unmasked_targets(const char* caller, const Ids& targets, std::size_t classes,
                          const CrossEntropyOptions& options) {
  const Shape shape(targets.shape().begin(), targets.shape().end());
  check_weights(caller, "class_weights", options.class_weights, {classes});
  check_weights(caller, "target_weights", options.target_weights, shape);
  constexpr std::size_t kMax = std::numeric_limits<std::int32_t>::max();
  check_argument(targets.size() <= kMax, caller, ": there are ", targets.size(),
                 " targets, expected at most ", kMax);
  const bool weighted = options.class_weights || options.target_weights;
  Unmasked unmasked;
  unmasked.rows.reserve(targets.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::int32_t target = targets.data()[i];
    if (target == options.ignore_index) continue;
    if (target < 0 || static_cast<std::size_t>(target) >= classes)
      check_argument(false, caller, ": target ", target, " at ", bracketed(index_at(shape, i)),
                     " is out of range: there are ", classes, " classes");
    double product = 1;
    if (options.class_weights) product *= options.class_weights->data()[target];
    if (options.target_weights) product *= options.target_weights->data()[i];
    const auto weight = static_cast<real>(product);
    if (weight == 0) continue;
    if (!std::isfinite(weight))
      check_argument(false, caller, ": the weight of the target at ", bracketed(index_at(shape, i)),
                     " is ", product, ", expected at most ", std::numeric_limits<real>::max());
    if (weighted) unmasked.weights.push_back(weight);
    unmasked.rows.push_back(static_cast<std::int32_t>(i));
    unmasked.total += weight;
  }
  return unmasked;
}

// Returns the factor by which the sum of the losses is multiplied.
double scale_of(const char* caller, const Unmasked& unmasked, const Ids& targets,
                LossReduction reduction) {
  if (reduction == LossReduction::kSum) return 1;
  check_argument(unmasked.total > 0, caller, ": 0 of ", targets.size(),
                 " targets have nonzero weight, expected at least one for a mean");
  return 1 / unmasked.total;
}

// Returns the unmasked targets. Also checks that the targets have the shape of the logits without
// the last axis.
Unmasked unmasked_targets(const char* caller, const Shape& logits, const Ids& targets,
                          const CrossEntropyOptions& options) {
  check_argument(logits.size() == targets.dimension() + 1 &&
                     std::equal(targets.shape().begin(), targets.shape().end(), logits.begin()),
                 caller, ": logits have shape ", bracketed(logits), " for targets of shape ",
                 bracketed(targets.shape()),
                 ", expected the shape of the targets and a last axis of classes");
  return unmasked_targets(caller, targets, logits.back(), options);
}

// Checks the arguments of a loss that compares two variables.
void check_pair(const char* caller, const Variable& input, const Variable& target,
                LossReduction reduction) {
  check_argument(input.shape() == target.shape(), caller, ": shapes ", bracketed(input.shape()),
                 " and ", bracketed(target.shape()), " differ, expected equal shapes");
  check_argument(reduction == LossReduction::kSum || input.value().size() > 0, caller,
                 ": there are no elements, expected at least one for a mean");
}

Variable reduced(const Variable& losses, LossReduction reduction) {
  return reduction == LossReduction::kSum ? sum(losses) : mean(losses);
}

}  // namespace

double total_weight(const Ids& targets, std::size_t classes, const CrossEntropyOptions& options) {
  return unmasked_targets("total_weight", targets, classes, options).total;
}

Variable cross_entropy(const Variable& logits, const Ids& targets,
                       const CrossEntropyOptions& options) {
  static constexpr char kName[] = "cross_entropy";
  const Unmasked unmasked = unmasked_targets(kName, logits.shape(), targets, options);
  const double scale = scale_of(kName, unmasked, targets, options.reduction);
  const std::size_t classes = logits.shape().back();
  const std::size_t rows = targets.size();

  ExpSums sums(rows);
  kernels::exp_sum_rows(logits.read().data(), rows, classes, false, sums.data());
  std::vector<real, PoolAllocator<real>> weights(rows, 0);
  double total = 0;
  for (std::size_t i = 0; i < unmasked.rows.size(); ++i) {
    const auto row = static_cast<std::size_t>(unmasked.rows[i]);
    const auto target = static_cast<std::size_t>(targets.data()[row]);
    weights[row] = unmasked.weights.empty() ? real{1} : unmasked.weights[i];
    total += weights[row] * sums[row].above(logits.read().data()[row * classes + target]);
  }
  return record(kName, {logits}, scalar(static_cast<real>(total * scale)),
                [targets, scale, rows, classes, weights = std::move(weights),
                 sums = std::move(sums)](Backward& node) {
                  Tensor gradient = empty(node.input_shape(0));
                  kernels::cross_entropy_rows_backward(
                      node.input(0).data(), sums.data(), targets.data(), weights.data(),
                      static_cast<real>(scale * *node.gradient().data()), rows, classes,
                      gradient.data());
                  node.slot(0).take(std::move(gradient));
                });
}

Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias, const Ids& targets,
                              const CrossEntropyOptions& options) {
  static constexpr char kName[] = "linear_cross_entropy";
  check_linear(kName, x, weight, bias);
  Shape logits = x.shape();
  logits.back() = weight.shape()[0];
  const Unmasked unmasked = unmasked_targets(kName, logits, targets, options);
  const double scale = scale_of(kName, unmasked, targets, options.reduction);
  const std::vector<std::int32_t>& rows = unmasked.rows;
  const std::size_t width = weight.shape()[1];
  const bool all = rows.size() == targets.size();
  Tensor picked = empty({all ? 0 : rows.size(), width});
  if (!all) kernels::gather_rows(x.read().data(), width, rows, picked.data());
  std::vector<std::int32_t> picked_targets;
  for (const std::int32_t row : rows) picked_targets.push_back(targets.data()[row]);

  std::vector<Variable> inputs{x, weight};
  if (bias) inputs.push_back(*bias);
  std::array<Tensor, 3> gradients;  // only for inputs that need one
  std::array<real*, 3> wanted{};
  // If there are logits, the kernel writes every element of the gradients.
  const bool written = !rows.empty() && logits.back() > 0 && width > 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].needs_gradient()) continue;
    const Shape& shape = i == 0 && !all ? picked.shape() : inputs[i].shape();
    gradients[i] = written ? empty(shape) : zeros(shape);
    wanted[i] = gradients[i].data();
  }
  const double total = kernels::linear_cross_entropy(
      {.x = all ? x.read().data() : picked.data(),
       .weight = weight.read().data(),
       .bias = bias ? bias->read().data() : nullptr,
       .rows = rows.size(),
       .width = width,
       .classes = weight.shape()[0],
       .targets = picked_targets.data(),
       .row_weights = unmasked.weights.empty() ? nullptr : unmasked.weights.data()},
      {.x = wanted[0], .weight = wanted[1], .bias = wanted[2], .scale = static_cast<real>(scale)});
  if (!all && x.needs_gradient()) {
    const RowGradient of_rows({targets.size(), width}, rows, std::move(gradients[0]));
    gradients[0] = reshaped(of_rows.to_dense(), x.shape());
  }

  return record(kName, inputs, scalar(static_cast<real>(total * scale)),
                [gradients = std::move(gradients), count = inputs.size()](Backward& node) mutable {
                  const real upstream = *node.gradient().data();
                  for (std::size_t i = 0; i < count; ++i) {
                    GradientSlot slot = node.slot(i);
                    if (!slot) continue;
                    Gradient gradient(std::move(gradients[i]));
                    gradient.scale(upstream);
                    slot.take(std::move(gradient));
                  }
                });
}

Variable binary_cross_entropy_with_logits(const Variable& logits, const Variable& targets,
                                          LossReduction reduction) {
  static constexpr char kName[] = "binary_cross_entropy_with_logits";
  check_pair(kName, logits, targets, reduction);
  const auto loss = [](Simd x, Simd y) {  // softplus(x) − y x
    const Simd share = select(x > 0, real{1} - y, -y);
    return select(share == 0, 0, share * x) + log1p(exp(-abs(x)));  // avoids 0 · ∞
  };
  return reduced(pointwise(
                     kName, logits, targets, loss,
                     [](Simd g, Simd x, Simd y) { return g * (1 / (1 + exp(-x)) - y); },
                     [](Simd g, Simd x) { return -g * x; }),
                 reduction);
}

Variable mse_loss(const Variable& input, const Variable& target, LossReduction reduction) {
  check_pair("mse_loss", input, target, reduction);
  const Variable difference = input - target;
  return reduced(difference * difference, reduction);
}

}  // namespace rowgrad
