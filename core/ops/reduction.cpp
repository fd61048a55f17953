#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

void check_mean(const Variable& x) {
  check_argument(x.value().size() > 0, "mean: there are no numbers to take the mean of");
}

std::vector<int> all_axes(const Variable& x) {
  std::vector<int> axes(x.shape().size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// The shape of a result in which the marked axes have length 1, or are left out.
Shape reduced_shape(const Shape& shape, const std::vector<bool>& marked, KeepAxes keep) {
  Shape result;
  for (std::size_t axis = 0; axis < marked.size(); ++axis)
    if (!marked[axis] || keep == KeepAxes::kYes) result.push_back(marked[axis] ? 1 : shape[axis]);
  return result;
}

Variable variance(std::string_view op, const Variable& x, const std::vector<int>& axes,
                  const VarianceOptions& options) {
  const std::vector<bool> marked = resolve_axes(op, axes, x.shape().size());
  std::size_t count = 1;
  for (std::size_t axis = 0; axis < marked.size(); ++axis)
    if (marked[axis]) count *= x.shape()[axis];
  const double divisor = static_cast<double>(count) - options.correction;
  check_argument(divisor > 0, op, ": ", count, " values with a correction of ", options.correction,
                 " leave nothing to divide by");
  // The mean of large numbers is rounded. Centring a second time takes away what the first left.
  Variable rest = x;
  for (int time = 0; time < 2; ++time)
    rest = rest - sum(rest, axes, KeepAxes::kYes) / static_cast<real>(count);
  return sum(rest * rest, axes, options.keep) / static_cast<real>(divisor);
}

Tensor norms(const Tensor& x, const std::vector<bool>& marked) {
  std::vector<std::size_t> axes;  // those that stay, then those that go
  for (const bool goes : {false, true})
    for (std::size_t axis = 0; axis < marked.size(); ++axis)
      if (marked[axis] == goes) axes.push_back(axis);
  Tensor result = zeros(reduced_shape(x.shape(), marked, KeepAxes::kYes));
  if (x.size() == 0) return result;
  const std::size_t width = x.size() / result.size();
  const std::size_t row = x.shape().empty() ? 1 : x.shape().back();
  const kernels::Rows whole{x.data(), x.size() / row, row};
  if (result.size() == 1)
    *result.data() = static_cast<real>(kernels::norm({&whole, 1}, 2));
  else if (std::is_sorted(axes.begin(), axes.end()))
    kernels::norm_rows(x.data(), result.size(), width, result.data());
  else
    kernels::norm_rows(permuted(x, axes).data(), result.size(), width, result.data());
  return result;
}

// Running sums of x along one axis, from its first entry to its last, or from the last to the first
// if `reverse`; added up in double, a few columns at a time.
Tensor running_sums(const Tensor& x, std::size_t axis, bool reverse) {
  constexpr std::size_t kColumns = 4 * Simd::size;
  const AxisView view(x.shape(), axis);
  const std::size_t column_blocks = (view.inner + kColumns - 1) / kColumns;
  Tensor y = empty(x.shape());
  const auto sum_columns = [=, from = x.data(), to = y.data()](std::size_t block) {
    const std::size_t first = block % column_blocks * kColumns;
    const std::size_t width = std::min(kColumns, view.inner - first);
    std::array<double, kColumns> sums{};
    for (std::size_t i = 0; i < view.extent; ++i) {
      const std::size_t entry = reverse ? view.extent - 1 - i : i;
      const std::size_t at = (block / column_blocks * view.extent + entry) * view.inner + first;
      for (std::size_t k = 0; k < width; ++k)
        to[at + k] = static_cast<real>(sums[k] += static_cast<double>(from[at + k]));
    }
  };
  const std::size_t work = std::min(kColumns, view.inner) * view.extent;
  kernels::parallel_for_each(view.outer * column_blocks, work, sum_columns);
  return y;
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
  const Shape kept_shape = value.shape();
  value.reshape(reduced_shape(x.shape(), marked, keep));
  return record("sum", {x}, std::move(value), [kept_shape](Backward& node) {
    Tensor gradient = empty(node.input_shape(0));
    kernels::broadcast_into(
        gradient, [](Simd g) { return g; }, reshaped(node.take_gradient(), kept_shape));
    node.give(0, std::move(gradient));
  });
}

// Both divide: with a rounded reciprocal of the count, the mean of 41 ones would not be one.
Variable mean(const Variable& x) {
  check_mean(x);
  return sum(x) / static_cast<real>(x.value().size());
}

Variable mean(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  check_mean(x);
  resolve_axes("mean", axes, x.shape().size());
  const Variable total = sum(x, axes, keep);
  return total / static_cast<real>(x.value().size() / total.value().size());
}

Variable cumsum(const Variable& x, int axis) {
  const std::size_t along = resolve_axis("cumsum", axis, x.shape().size());
  return record("cumsum", {x}, running_sums(x.value(), along, false), [along](Backward& node) {
    node.give(0, running_sums(node.gradient(), along, true));
  });
}

Variable var(const Variable& x) { return variance("var", x, all_axes(x), {}); }

Variable var(const Variable& x, const std::vector<int>& axes, const VarianceOptions& options) {
  return variance("var", x, axes, options);
}

Variable stddev(const Variable& x) { return stddev(x, all_axes(x)); }

Variable stddev(const Variable& x, const std::vector<int>& axes, const VarianceOptions& options) {
  return pointwise(
      "stddev", variance("stddev", x, axes, options), [](Simd v) { return sqrt(v); },
      [](Simd g, Simd, Simd y) { return select(y == 0, 0, 0.5 * g / y); });
}

Variable norm(const Variable& x) { return norm(x, all_axes(x)); }

Variable norm(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  const std::vector<bool> marked = resolve_axes("norm", axes, x.shape().size());
  Tensor kept = norms(x.value(), marked);
  Tensor value = reshaped(kept, reduced_shape(x.shape(), marked, keep));
  return record("norm", {x}, std::move(value), [kept = std::move(kept)](Backward& node) {
    const auto along = [](Simd v, Simd length, Simd g) {
      return select(length == 0, 0, v / length) * g;
    };
    node.give(0, kernels::broadcast_map("norm", along, node.input(0), kept,
                                        reshaped(node.take_gradient(), kept.shape())));
  });
}

}  // namespace rowgrad
