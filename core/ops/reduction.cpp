#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/reduce.hpp>
#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/core/ops/axes.hpp>
#include <rowgrad/core/ops/reduction.hpp>

namespace rowgrad {
namespace {

real inverse_count(std::size_t of_x, std::size_t of_sum) {
  check_argument(of_x > 0, "mean: there are no numbers to take the mean of");
  return static_cast<real>(of_sum) / static_cast<real>(of_x);
}

}  // namespace

Variable sum(const Variable& x) {
  return record(
      "sum", {x}, scalar(kernels::sum(x.value().data(), x.value().size())),
      [](Backward& node) { node.give(0, full(node.input_shape(0), *node.gradient().data())); });
}

Variable sum(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  const std::vector<bool> marked = resolve_axes("sum", axes, x.shape().size());
  Tensor value = kernels::sum_along(x.value(), marked);
  Shape kept_shape = value.shape();
  if (keep == KeepAxes::kNo) {
    Shape shape;
    for (std::size_t axis = 0; axis < marked.size(); ++axis)
      if (!marked[axis]) shape.push_back(kept_shape[axis]);
    value.reshape(shape);
  }
  return record("sum", {x}, std::move(value), [kept_shape](Backward& node) {
    node.give(0, kernels::expand(reshaped(node.take_gradient(), kept_shape), node.input_shape(0)));
  });
}

Variable mean(const Variable& x) { return sum(x) * inverse_count(x.value().size(), 1); }

Variable mean(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  const Variable total = sum(x, axes, keep);
  return total * inverse_count(x.value().size(), total.value().size());
}

}  // namespace rowgrad
