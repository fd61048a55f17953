#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

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

// Holds squares and sums of `real`s without overflow or underflow.
using Wide = std::conditional_t<sizeof(real) == 4, double, long double>;

bool all_finite(const Tensor& x) {
  return std::all_of(x.data(), x.data() + x.size(),
                     [](real value) { return std::isfinite(value); });
}

// The axes that stay, and then the marked ones.
std::vector<std::size_t> marked_last(const std::vector<bool>& marked) {
  std::vector<std::size_t> axes;
  for (const bool goes : {false, true})
    for (std::size_t axis = 0; axis < marked.size(); ++axis)
      if (marked[axis] == goes) axes.push_back(axis);
  return axes;
}

// x with the marked axes last, so that the values which are reduced together are adjacent.
class Rows {
 public:
  Rows(const Tensor& x, const std::vector<bool>& marked)
      : axes_(marked_last(marked)),
        moved_(std::ranges::is_sorted(axes_) ? std::nullopt : std::optional(permuted(x, axes_))),
        values_(moved_ ? *moved_ : x) {
    for (std::size_t axis = 0; axis < marked.size(); ++axis)
      (marked[axis] ? width_ : rows_) *= x.shape()[axis];
  }

  std::size_t rows() const { return rows_; }
  std::size_t width() const { return width_; }
  const Tensor& values() const { return values_; }
  std::span<const real> row(std::size_t i) const { return {values_.data() + i * width_, width_}; }

  // Moves values from the order of values() to the order of x.
  Tensor in_order_of_x(Tensor values) const {
    if (!moved_) return values;
    std::vector<std::size_t> inverse(axes_.size());
    for (std::size_t i = 0; i < axes_.size(); ++i) inverse[axes_[i]] = i;
    return permuted(values, inverse);
  }

 private:
  std::vector<std::size_t> axes_;
  std::optional<Tensor> moved_;
  const Tensor& values_;  // moved_ or x
  std::size_t rows_ = 1;
  std::size_t width_ = 1;
};

// Σ f(x) over a row.
Wide sum_of(std::span<const real> row, const auto& f) {
  std::array<Wide, 16> sums{};  // side by side: the compiler makes vectors of them
  std::size_t i = 0;
  for (; i + sums.size() <= row.size(); i += sums.size())
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += f(row[i + k]);
  for (; i < row.size(); ++i) sums[0] += f(row[i]);
  return std::accumulate(sums.begin(), sums.end(), Wide{0});
}

Wide mean_of(std::span<const real> row) {
  return sum_of(row, [](real x) { return Wide{x}; }) / static_cast<Wide>(row.size());
}

// The distances of a row's values from their mean: what rounding took from it is kept.
class Distances {
 public:
  explicit Distances(std::span<const real> row) : row_(row), mean_(mean_of(row)) {
    const Wide total = sum_of(row, [mean = mean_](real x) { return x - mean; });
    rest_ = total / static_cast<Wide>(row.size());
  }

  Wide of(real x) const { return (x - mean_) - rest_; }
  Wide sum_of_squares() const {
    return sum_of(row_, [own = *this](real x) { return own.of(x) * own.of(x); });
  }

 private:
  std::span<const real> row_;
  Wide mean_;
  Wide rest_ = 0;
};

// The variance or, if `is_root`, its square root. Both are made of wide numbers: squares overflow
// and underflow where the deviation does not.
Variable variance(OpName op, bool is_root, const Variable& x, const std::vector<int>& axes,
                  const VarianceOptions& options) {
  const std::vector<bool> marked = resolve_axes(op, axes, x.shape().size());
  const Rows given(x.value(), marked);
  const double divisor = static_cast<double>(given.width()) - options.correction;
  check_argument(divisor > 0, std::string_view(op), ": ", given.width(),
                 " values with a correction of ", options.correction,
                 " leave nothing to divide by");
  Tensor value = empty(reduced_shape(x.shape(), marked, options.keep));
  kernels::parallel_for_each(given.rows(), 4 * given.width(), [&](std::size_t i) {
    const Wide square = Distances(given.row(i)).sum_of_squares() / static_cast<Wide>(divisor);
    value.data()[i] = static_cast<real>(is_root ? std::sqrt(square) : square);
  });
  return record(op, {x}, std::move(value), [marked, divisor, is_root](Backward& node) {
    const Rows rows(node.input(0), marked);
    Tensor dx = empty(rows.values().shape());
    kernels::parallel_for_each(rows.rows(), 4 * rows.width(), [&](std::size_t i) {
      const std::span<const real> row = rows.row(i);
      const Distances distances(row);
      // d variance = 2 distance / divisor, d deviation = distance / deviation / divisor
      Wide factor = 2;
      if (is_root) {
        const Wide root = std::sqrt(distances.sum_of_squares() / static_cast<Wide>(divisor));
        factor = root == 0 ? 0 : 1 / root;
      }
      factor *= node.gradient().data()[i] / static_cast<Wide>(divisor);
      std::transform(row.begin(), row.end(), dx.data() + i * rows.width(),
                     [&](real from) { return static_cast<real>(distances.of(from) * factor); });
    });
    node.give(0, rows.in_order_of_x(std::move(dx)));
  });
}

Tensor norms(const Tensor& x, const std::vector<bool>& marked) {
  Tensor result = zeros(reduced_shape(x.shape(), marked, KeepAxes::kYes));
  if (x.size() == 0) return result;
  const std::size_t row = x.shape().empty() ? 1 : x.shape().back();
  const kernels::Rows whole{x.data(), x.size() / row, row};
  if (result.size() == 1) {
    *result.data() = static_cast<real>(kernels::norm({&whole, 1}, 2));
  } else {
    const Rows rows(x, marked);
    kernels::norm_rows(rows.values().data(), rows.rows(), rows.width(), result.data());
  }
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

// Divides: with a rounded reciprocal of the count, the mean of 41 ones would not be one.
Variable mean(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  check_mean(x);
  const std::vector<bool> marked = resolve_axes("mean", axes, x.shape().size());
  const Variable total = sum(x, axes, keep);
  const auto count = static_cast<real>(x.value().size() / total.value().size());
  if (all_finite(total.value())) return total / count;
  // The sum may have overflowed, where the mean does not.
  const Rows rows(x.value(), marked);
  Tensor value = empty(total.shape());
  for (std::size_t i = 0; i < rows.rows(); ++i)
    value.data()[i] = static_cast<real>(mean_of(rows.row(i)));
  return record("mean", {total}, std::move(value), [count](Backward& node) {
    node.give(0, kernels::map([=](Simd g) { return g / Simd(count); }, node.gradient()));
  });
}

Variable mean(const Variable& x) { return mean(x, all_axes(x)); }

Variable cumsum(const Variable& x, int axis) {
  const std::size_t along = resolve_axis("cumsum", axis, x.shape().size());
  return record("cumsum", {x}, running_sums(x.value(), along, false), [along](Backward& node) {
    node.give(0, running_sums(node.gradient(), along, true));
  });
}

Variable var(const Variable& x) { return var(x, all_axes(x)); }

Variable var(const Variable& x, const std::vector<int>& axes, const VarianceOptions& options) {
  return variance("var", false, x, axes, options);
}

Variable stddev(const Variable& x) { return stddev(x, all_axes(x)); }

Variable stddev(const Variable& x, const std::vector<int>& axes, const VarianceOptions& options) {
  return variance("stddev", true, x, axes, options);
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
