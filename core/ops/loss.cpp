#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/linear_cross_entropy.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/kernels/softmax.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/ops/selection.hpp>
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
  if (rank == 0) return reshape(along_rows(op, reshape(x, {1}), 0, forward, backward), {});
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
  if (rank == 0) return logsumexp(reshape(x, {1}), 0);
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

void check_elements(std::string_view caller, const char* name, const Tensor& x,
                    const auto& is_valid, const char* expected) {
  const auto wrong = std::find_if_not(x.begin(), x.end(), is_valid);
  check_argument(wrong == x.end(), caller, ": ", name, " has an element ",
                 wrong == x.end() ? 0 : *wrong, ", expected ", expected);
}

void check_weights(std::string_view caller, const char* name, const std::optional<Tensor>& weights,
                   const Shape& expected) {
  if (!weights) return;
  check_argument(weights->shape() == expected, caller, ": ", name, " has shape ",
                 bracketed(weights->shape()), ", expected ", bracketed(expected));
  check_elements(
      caller, name, *weights, [](real w) { return w >= 0 && std::isfinite(w); },
      "finite weights >= 0");
}

// `shape` is the shape of the targets.
void check_options(std::string_view caller, const Shape& shape, std::size_t classes,
                   const CrossEntropyOptions& options) {
  check_weights(caller, "class_weights", options.class_weights, {classes});
  check_weights(caller, "target_weights", options.target_weights, shape);
  check_argument(options.label_smoothing >= 0 && options.label_smoothing <= 1, caller,
                 ": label_smoothing is ", options.label_smoothing, ", expected 0 to 1");
}

Unmasked unmasked_targets(std::string_view caller, const Ids& targets, std::size_t classes,
                          const CrossEntropyOptions& options) {
  const Shape shape(targets.shape().begin(), targets.shape().end());
  check_options(caller, shape, classes, options);
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
    double product = options.target_weights ? options.target_weights->data()[i] : 1;
    if (product == 0) continue;
    if (options.class_weights) product *= options.class_weights->data()[target];
    const auto weight = static_cast<real>(product);
    if (weight == 0 && options.label_smoothing == 0) continue;  // smoothing uses other classes
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
double scale_of(const Unmasked& unmasked, LossReduction reduction) {
  if (reduction != LossReduction::kMean) return 1;
  return unmasked.total > 0 ? 1 / unmasked.total : 0;
}

// Returns the unmasked targets. Also checks that the targets have the shape of the logits without
// the last axis.
Unmasked unmasked_targets(std::string_view caller, const Shape& logits, const Ids& targets,
                          const CrossEntropyOptions& options) {
  check_argument(logits.size() == targets.dimension() + 1 &&
                     std::equal(targets.shape().begin(), targets.shape().end(), logits.begin()),
                 caller, ": logits have shape ", bracketed(logits), " for targets of shape ",
                 bracketed(targets.shape()),
                 ", expected the shape of the targets and a last axis of classes");
  return unmasked_targets(caller, targets, logits.back(), options);
}

// Checks the arguments of a loss that compares two variables.
void check_pair(std::string_view caller, const Variable& input, const Variable& target,
                LossReduction reduction) {
  check_argument(input.shape() == target.shape(), caller, ": shapes ", bracketed(input.shape()),
                 " and ", bracketed(target.shape()), " differ, expected equal shapes");
  check_argument(reduction != LossReduction::kMean || input.value().size() > 0, caller,
                 ": there are no elements, expected at least one for a mean");
}

Variable reduced(const Variable& losses, LossReduction reduction) {
  if (reduction == LossReduction::kNone) return losses;
  return reduction == LossReduction::kSum ? sum(losses) : mean(losses);
}

// Records cross_entropy(), or nll_loss() if the rows of x are log probabilities.
Variable class_loss(OpName op, const Variable& x, const Ids& ids,
                    const CrossEntropyOptions& options, bool is_log) {
  const Unmasked unmasked = unmasked_targets(op, x.shape(), ids, options);
  const std::size_t classes = x.shape().back();
  kernels::CrossEntropyRows rows{
      .targets = ids,
      .weights = zeros({ids.size()}),
      .class_weights = options.class_weights ? *options.class_weights : full({classes}, 1),
      .smoothing = static_cast<real>(options.label_smoothing)};
  for (const std::int32_t row : unmasked.rows)
    rows.weights.data()[row] = options.target_weights ? options.target_weights->data()[row] : 1;
  if (!is_log) {
    rows.sums.resize(ids.size());
    kernels::exp_sum_rows(x.read().data(), ids.size(), classes, false, rows.sums.data());
  }
  std::vector<double, PoolAllocator<double>> losses(ids.size());
  kernels::cross_entropy_rows(x.read().data(), rows, losses.data());
  const bool each = options.reduction == LossReduction::kNone;
  const double scale = scale_of(unmasked, options.reduction);
  const double total = std::accumulate(losses.begin(), losses.end(), 0.0);
  Tensor value = scalar(static_cast<real>(total * scale));
  if (each) {
    value = empty({ids.shape().begin(), ids.shape().end()});
    std::copy(losses.begin(), losses.end(), value.data());
  }
  return record(op, {x}, std::move(value), [scale, each, rows = std::move(rows)](Backward& node) {
    Tensor gradient = empty(node.input_shape(0));
    const Tensor& g = node.gradient();
    const Tensor dy = each ? g : full({rows.targets.size()}, static_cast<real>(scale * *g.data()));
    kernels::cross_entropy_rows_backward(node.input(0).data(), rows, dy.data(), gradient.data());
    node.slot(0).take(std::move(gradient));
  });
}

// Checks the arguments of a loss of binary decisions.
void check_binary(std::string_view caller, const Variable& input, const Variable& targets,
                  const BinaryCrossEntropyOptions& options) {
  check_pair(caller, input, targets, options.reduction);
  for (const auto* weights : {&options.weight, &options.pos_weight})
    if (*weights &&
        kernels::broadcast_shape(caller, input.shape(), (*weights)->shape()) != input.shape())
      check_argument(false, caller, ": a weight has shape ", bracketed((*weights)->shape()),
                     ", expected a shape that broadcasts to ", bracketed(input.shape()));
}

Variable weighted(const Variable& x, const std::optional<Tensor>& weights) {
  return weights ? x * x.tape().constant(*weights) : x;
}

Variable reduced(const Variable& losses, const BinaryCrossEntropyOptions& options) {
  return reduced(weighted(losses, options.weight), options.reduction);
}

}  // namespace

double total_weight(const Ids& targets, std::size_t classes, const CrossEntropyOptions& options) {
  return unmasked_targets("total_weight", targets, classes, options).total;
}

Variable cross_entropy(const Variable& logits, const Ids& targets,
                       const CrossEntropyOptions& options) {
  return class_loss("cross_entropy", logits, targets, options, false);
}

Variable nll_loss(const Variable& log_probabilities, const Ids& targets,
                  const CrossEntropyOptions& options) {
  check_argument(options.label_smoothing == 0, "nll_loss: label_smoothing is ",
                 options.label_smoothing, ", expected 0 (use cross_entropy)");
  return class_loss("nll_loss", log_probabilities, targets, options, true);
}

Variable cross_entropy(const Variable& logits, const Variable& probabilities,
                       const CrossEntropyOptions& options) {
  static constexpr char kName[] = "cross_entropy";
  check_pair(kName, logits, probabilities, options.reduction);
  check_argument(!logits.shape().empty(), kName,
                 ": the logits are a scalar, expected a last axis of classes");
  const std::size_t classes = logits.shape().back();
  check_options(kName, {}, classes, options);
  check_argument(!options.target_weights, kName,
                 ": target_weights is set, expected none with probabilities (use kNone)");
  const auto share = static_cast<real>(options.label_smoothing);
  Variable p = probabilities;
  if (share > 0) p = p * (1 - share) + share / static_cast<real>(classes);
  p = weighted(p, options.class_weights);
  const Variable products = pointwise(
      kName, p, log_softmax(logits), [](Simd a, Simd b) { return select(a == 0, 0, -a * b); },
      [](Simd g, Simd b) { return -g * b; }, [](Simd g, Simd a) { return -g * a; });
  return reduced(sum(products, {-1}), options.reduction);
}

Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                              const std::optional<Variable>& bias, const Ids& targets,
                              const CrossEntropyOptions& options) {
  static constexpr char kName[] = "linear_cross_entropy";
  check_linear(kName, x, weight, bias);
  Shape logits = x.shape();
  logits.back() = weight.shape()[0];
  const Unmasked unmasked = unmasked_targets(kName, logits, targets, options);
  const std::vector<std::int32_t>& rows = unmasked.rows;
  const bool all = rows.size() == targets.size();
  // The fused kernel computes gradients before the upstream gradients of single losses are known.
  if (options.reduction == LossReduction::kNone || options.label_smoothing > 0) {
    Shape shape = x.shape();
    shape.back() = 1;
    Tensor mask = full(shape, 1);
    for (const std::int32_t row : rows) mask.data()[row] = 0;
    const Variable kept = all ? x : masked_fill(x, x.tape().constant(std::move(mask)), 0);
    return class_loss(kName, linear(kept, weight, bias), targets, options, false);
  }
  const double scale = scale_of(unmasked, options.reduction);
  const std::size_t width = weight.shape()[1];
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
                                          const BinaryCrossEntropyOptions& options) {
  static constexpr char kName[] = "binary_cross_entropy_with_logits";
  check_binary(kName, logits, targets, options);
  if (options.pos_weight) {
    const Variable positive = weighted(targets, options.pos_weight) * softplus(-logits);
    return reduced(positive + (real{1} - targets) * softplus(logits), options);
  }
  const auto loss = [](Simd x, Simd y) {  // softplus(x) − y x
    const Simd share = select(x > 0, real{1} - y, -y);
    return select(share == 0, 0, share * x) + log1p(exp(-abs(x)));  // avoids 0 · ∞
  };
  const Variable losses = pointwise(
      kName, logits, targets, loss,
      [](Simd g, Simd x, Simd y) { return g * (1 / (1 + exp(-x)) - y); },
      [](Simd g, Simd x) { return -g * x; });
  return reduced(losses, options);
}

Variable binary_cross_entropy(const Variable& input, const Variable& targets,
                              const BinaryCrossEntropyOptions& options) {
  static constexpr char kName[] = "binary_cross_entropy";
  check_binary(kName, input, targets, options);
  check_argument(!options.pos_weight, kName,
                 ": pos_weight is set, expected none (use binary_cross_entropy_with_logits)");
  const auto is_valid = [](real p) { return p >= 0 && p <= 1; };
  check_elements(kName, "input", input.value(), is_valid, "0 to 1");
  const Variable losses = pointwise(
      kName, input, targets,
      [](Simd p, Simd y) { return (y - 1) * max(log1p(-p), -100) - y * max(log(p), -100); },
      [](Simd g, Simd p, Simd y) { return g * (p - y) / max((1 - p) * p, 1e-12); },
      [](Simd g, Simd p) { return g * (log1p(-p) - log(p)); });
  return reduced(losses, options);
}

Variable mse_loss(const Variable& input, const Variable& target, LossReduction reduction) {
  check_pair("mse_loss", input, target, reduction);
  const Variable difference = input - target;
  return reduced(difference * difference, reduction);
}

Variable l1_loss(const Variable& input, const Variable& target, LossReduction reduction) {
  check_pair("l1_loss", input, target, reduction);
  return reduced(abs(input - target), reduction);
}

Variable huber_loss(const Variable& input, const Variable& target, double delta,
                    LossReduction reduction) {
  check_pair("huber_loss", input, target, reduction);
  check_argument(delta > 0, "huber_loss: delta is ", delta, ", expected more than 0");
  const auto loss = [=](Simd d) {
    return select(abs(d) <= delta, 0.5 * d * d, delta * (abs(d) - 0.5 * delta));
  };
  const auto slope = [=](Simd g, Simd d, Simd) {
    return g * select(d > delta, delta, select(d < -delta, -delta, d));
  };
  return reduced(pointwise("huber_loss", input - target, loss, slope), reduction);
}

Variable smooth_l1_loss(const Variable& input, const Variable& target, double beta,
                        LossReduction reduction) {
  check_pair("smooth_l1_loss", input, target, reduction);
  check_argument(beta >= 0, "smooth_l1_loss: beta is ", beta, ", expected at least 0");
  const auto divisor = static_cast<real>(beta);
  if (divisor == 0) return l1_loss(input, target, reduction);
  return huber_loss(input, target, beta, reduction) / divisor;
}

Variable kl_div(const Variable& input, const Variable& target, const KlDivOptions& options) {
  check_pair("kl_div", input, target, options.reduction);
  const bool is_mean = options.reduction == LossReduction::kMean && !input.shape().empty();
  check_argument(!options.batch_mean || is_mean, "kl_div: batch_mean is set with ",
                 options.reduction == LossReduction::kMean  ? "kMean"
                 : options.reduction == LossReduction::kSum ? "kSum"
                                                            : "kNone",
                 " for shape ", bracketed(input.shape()), ", expected kMean and at least one axis");
  const Variable losses =
      options.log_target ? exp(target) * (target - input)
                         : pointwise(
                               "kl_div", input, target,
                               [](Simd x, Simd t) { return select(t == 0, 0, t * (log(t) - x)); },
                               [](Simd g, Simd t) { return -g * t; },
                               [](Simd g, Simd x, Simd t) { return g * (log(t) - x + 1); });
  if (options.batch_mean) return sum(losses) / static_cast<real>(input.shape()[0]);
  return reduced(losses, options.reduction);
}

Variable cosine_similarity(const Variable& a, const Variable& b, int axis, double epsilon) {
  static constexpr char kName[] = "cosine_similarity";
  const Shape shape = kernels::broadcast_shape(kName, a.shape(), b.shape());
  const std::size_t along = resolve_axis(kName, axis, shape.size());
  check_argument(epsilon > 0, kName, ": epsilon is ", epsilon, ", expected more than 0");
  const auto unit = [&](const Variable& x) {
    const bool is_whole = x.shape().size() == shape.size() &&
                          AxisView(x.shape(), along).extent == AxisView(shape, along).extent;
    const Variable whole = is_whole ? x : expand(x, shape);
    const Variable length = norm(whole, {axis}, KeepAxes::kYes);
    return whole / clamp(length, static_cast<real>(epsilon), std::numeric_limits<real>::infinity());
  };
  return sum(unit(a) * unit(b), {axis});
}

}  // namespace rowgrad
