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
  check_argument(x.value().size() > 0, "mean: x has no elements, expected at least one");
}

std::vector<int> all_axes(const Variable& x) {
  std::vector<int> axes(x.shape().size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// Returns the shape with the marked axes removed or, if kept, of length 1.
Shape reduced_shape(const Shape& shape, const std::vector<bool>& marked, KeepAxes keep) {
  Shape result;
  for (std::size_t axis = 0; axis < marked.size(); ++axis)
    if (!marked[axis] || keep == KeepAxes::kYes) result.push_back(marked[axis] ? 1 : shape[axis]);
  return result;
}

// A type in which squares and sums of `real`s do not overflow or underflow.
using Wide = std::conditional_t<sizeof(real) == 4, double, long double>;

bool all_finite(const Tensor& x) {
  return std::all_of(x.data(), x.data() + x.size(),
                     [](real value) { return std::isfinite(value); });
}

// Returns the axes, with the marked axes moved to the end.
std::vector<std::size_t> marked_last(const std::vector<bool>& marked) {
  std::vector<std::size_t> axes;
  for (const bool is_marked : {false, true})
    for (std::size_t axis = 0; axis < marked.size(); ++axis)
      if (marked[axis] == is_marked) axes.push_back(axis);
  return axes;
}

bool are_adjacent(const std::vector<bool>& marked) {
  const auto first = std::ranges::find(marked, true);
  const auto last = std::find(first, marked.end(), false);
  return std::find(last, marked.end(), true) == marked.end();
}

// A view of x as [outer, extent, inner], for reductions along `extent`. Marked axes that are not
// adjacent are moved to the end.
class Reduced {
 public:
  Reduced(const Tensor& x, const std::vector<bool>& marked)
      : axes_(marked_last(marked)),
        moved_(are_adjacent(marked) ? std::nullopt : std::optional(permuted(x, axes_))),
        values_(moved_ ? *moved_ : x) {
    bool is_after = false;
    for (std::size_t axis = 0; axis < marked.size(); ++axis) {
      is_after |= marked[axis] && !moved_;
      (marked[axis] ? extent : is_after ? inner : outer) *= x.shape()[axis];
    }
  }

  const Tensor& values() const { return values_; }

  // Moves values from the order of values() to the order of x.
  Tensor in_order_of_x(Tensor values) const {
    if (!moved_) return values;
    std::vector<std::size_t> inverse(axes_.size());
    for (std::size_t i = 0; i < axes_.size(); ++i) inverse[axes_[i]] = i;
    return permuted(values, inverse);
  }

  std::size_t outer = 1;
  std::size_t extent = 1;
  std::size_t inner = 1;

 private:
  std::vector<std::size_t> axes_;
  std::optional<Tensor> moved_;
  const Tensor& values_;  // moved_ or x
};

constexpr std::size_t kSideBySide = 16;  // columns that the compiler vectorizes together

template <std::size_t N>
using Columns = std::array<Wide, N>;

// Up to N adjacent columns, each of which is reduced. A single column (N = 1) is contiguous.
template <std::size_t N>
class Block {
 public:
  Block(const Reduced& x, std::size_t index)
      : values_(x.values().data()), extent_(x.extent), stride_(x.inner) {
    const std::size_t column = index % per_outer(x) * N;
    begin_ = index / per_outer(x) * x.extent * x.inner + column;
    result_ = index / per_outer(x) * x.inner + column;
    width_ = std::min(N, x.inner - column);
  }
  static std::size_t count(const Reduced& x) { return x.outer * per_outer(x); }

  std::size_t width() const { return width_; }
  std::size_t result(std::size_t k) const { return result_ + k; }  // index of column k's result

  // Calls f(x, i, k) for each element x of column k, where i is the index of x in values().
  void for_each(const auto& f) const {
    const real* const x = values_;
    const std::size_t end = begin_ + extent_ * stride_;
    if (width_ == N)
      for (std::size_t i = begin_; i < end; i += stride_)
        for (std::size_t k = 0; k < N; ++k) f(x[i + k], i + k, k);
    else
      for (std::size_t i = begin_; i < end; i += stride_)
        for (std::size_t k = 0; k < width_; ++k) f(x[i + k], i + k, k);
  }

  // Returns Σ f(x, k) over each column k.
  Columns<N> sum(const auto& f) const {
    Columns<N> sums{};
    if constexpr (N == 1) {
      Columns<kSideBySide> parts{};
      const std::span<const real> row{values_ + begin_, extent_};
      std::size_t i = 0;
      for (; i + parts.size() <= row.size(); i += parts.size())
        for (std::size_t k = 0; k < parts.size(); ++k) parts[k] += f(row[i + k], 0);
      for (; i < row.size(); ++i) parts[0] += f(row[i], 0);
      sums[0] = std::accumulate(parts.begin(), parts.end(), Wide{0});
    } else {
      for_each([&](real x, std::size_t, std::size_t k) { sums[k] += f(x, k); });
    }
    return sums;
  }
  // Returns the mean of f(x, k) over each column k.
  Columns<N> mean(const auto& f) const {
    Columns<N> means = sum(f);
    for (Wide& column : means) column /= static_cast<Wide>(extent_);
    return means;
  }

 private:
  static std::size_t per_outer(const Reduced& x) { return N == 1 ? 1 : (x.inner + N - 1) / N; }

  const real* values_;
  std::size_t extent_;
  std::size_t stride_;
  std::size_t begin_;   // index of the first element
  std::size_t result_;  // index of the first column's result
  std::size_t width_;
};

// Calls body(block) for each block of columns.
void for_each_block(const Reduced& x, const auto& body) {
  const auto for_blocks_of = [&]<std::size_t N>() {
    kernels::parallel_for_each(Block<N>::count(x), 4 * x.extent * std::min(N, x.inner),
                               [&](std::size_t i) { body(Block<N>(x, i)); });
  };
  if (x.inner == 1)
    for_blocks_of.template operator()<1>();
  else
    for_blocks_of.template operator()<kSideBySide>();
}

template <std::size_t N>
Columns<N> means_of(const Block<N>& block) {
  return block.mean([](real x, std::size_t) { return Wide{x}; });
}

// The distances of elements from their mean, corrected for the rounding error of the mean.
template <std::size_t N>
class Distances {
 public:
  explicit Distances(const Block<N>& block) : means_(means_of(block)) {
    rests_ = block.mean([means = means_](real x, std::size_t k) { return x - means[k]; });
  }

  Wide operator()(real x, std::size_t k) const { return (x - means_[k]) - rests_[k]; }

 private:
  Columns<N> means_;
  Columns<N> rests_;
};

// Returns the variances or, if `is_root`, the standard deviations. These are Wide, since squares
// may overflow or underflow where the standard deviation does not.
template <std::size_t N>
Columns<N> variances(const Block<N>& block, const Distances<N>& distances, Wide divisor,
                     bool is_root) {
  Columns<N> result =
      block.sum([own = distances](real x, std::size_t k) { return own(x, k) * own(x, k); });
  for (Wide& column : result) column = is_root ? std::sqrt(column / divisor) : column / divisor;
  return result;
}

Variable variance(OpName op, bool is_root, const Variable& x, const std::vector<int>& axes,
                  const VarianceOptions& options) {
  const std::vector<bool> marked = resolve_axes(op, axes, x.shape().size());
  const Reduced given(x.read(), marked);
  const auto divisor = static_cast<Wide>(static_cast<double>(given.extent) - options.correction);
  check_argument(divisor > 0, std::string_view(op), ": correction is ", options.correction,
                 ", expected less than ", given.extent, ", the number of elements");
  Tensor value = empty(reduced_shape(x.shape(), marked, options.keep));
  for_each_block(given, [&](const auto& block) {
    const auto columns = variances(block, Distances(block), divisor, is_root);
    for (std::size_t k = 0; k < block.width(); ++k)
      value.data()[block.result(k)] = static_cast<real>(columns[k]);
  });
  return record(op, {x}, std::move(value), [marked, divisor, is_root](Backward& node) {
    const Reduced from(node.input(0), marked);
    Tensor dx = empty(from.values().shape());
    for_each_block(from, [&](const auto& block) {
      const Distances distances(block);
      // d var / dx = 2 distance / divisor, d stddev / dx = distance / stddev / divisor
      auto factors = variances(block, distances, divisor, is_root);
      for (std::size_t k = 0; k < block.width(); ++k) {
        const Wide slope = is_root ? (factors[k] == 0 ? 0 : 1 / factors[k]) : 2;
        factors[k] = slope * (node.gradient().data()[block.result(k)] / divisor);
      }
      block.for_each([=, to = dx.data()](real element, std::size_t i, std::size_t k) {
        to[i] = static_cast<real>(distances(element, k) * factors[k]);
      });
    });
    node.slot(0).take(from.in_order_of_x(std::move(dx)));
  });
}

Tensor norms(const Tensor& x, const std::vector<bool>& marked) {
  Tensor result = zeros(reduced_shape(x.shape(), marked, KeepAxes::kYes));
  if (x.size() == 0) return result;
  const std::size_t row = x.shape().empty() ? 1 : x.shape().back();
  const kernels::RowSpan whole{x.data(), x.size() / row, row};
  if (result.size() == 1) {
    *result.data() = static_cast<real>(kernels::norm({&whole, 1}, 2));
  } else {
    const std::vector<std::size_t> axes = marked_last(marked);
    const auto write_norms = [&](const Tensor& rows) {
      kernels::norm_rows(rows.data(), result.size(), x.size() / result.size(), result.data());
    };
    std::ranges::is_sorted(axes) ? write_norms(x) : write_norms(permuted(x, axes));
  }
  return result;
}

// Returns running sums of x along one axis, from the last index to the first if `reverse`. Adds in
// double precision, a few columns at a time.
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
  return record("sum", {x}, scalar(kernels::sum(x.read().data(), x.value().size())),
                [](Backward& node) {
                  node.slot(0).take(full(node.input_shape(0), *node.gradient().data()));
                });
}

Variable sum(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  const std::vector<bool> marked = resolve_axes("sum", axes, x.shape().size());
  Tensor value = kernels::sum_along(x.read(), marked);
  const Shape kept_shape = value.shape();
  value.reshape(reduced_shape(x.shape(), marked, keep));
  return record("sum", {x}, std::move(value), [kept_shape](Backward& node) {
    Tensor gradient = empty(node.input_shape(0));
    kernels::broadcast_into(
        gradient, [](Simd g) { return g; }, reshaped(node.take_gradient(), kept_shape));
    node.slot(0).take(std::move(gradient));
  });
}

// Divides by the count, as multiplying by a rounded reciprocal does not give 1 for 41 ones.
Variable mean(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  check_mean(x);
  const std::vector<bool> marked = resolve_axes("mean", axes, x.shape().size());
  const Variable total = sum(x, axes, keep);
  const auto count = static_cast<real>(x.value().size() / total.value().size());
  if (all_finite(total.value())) return total / count;
  // The sum may have overflowed although the mean does not.
  Tensor value = empty(total.shape());
  for_each_block(Reduced(x.read(), marked), [&](const auto& block) {
    const auto means = means_of(block);
    for (std::size_t k = 0; k < block.width(); ++k)
      value.data()[block.result(k)] = static_cast<real>(means[k]);
  });
  return record("mean", {total}, std::move(value), [count](Backward& node) {
    node.slot(0).take(kernels::map([=](Simd g) { return g / Simd(count); }, node.gradient()));
  });
}

Variable mean(const Variable& x) { return mean(x, all_axes(x)); }

Variable cumsum(const Variable& x, int axis) {
  const std::size_t along = resolve_axis("cumsum", axis, x.shape().size());
  return record("cumsum", {x}, running_sums(x.read(), along, false), [along](Backward& node) {
    node.slot(0).take(running_sums(node.gradient(), along, true));
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
  Tensor kept = norms(x.read(), marked);
  Tensor value = reshaped(kept, reduced_shape(x.shape(), marked, keep));
  return record("norm", {x}, std::move(value), [kept = std::move(kept)](Backward& node) {
    const auto along = [](Simd v, Simd length, Simd g) {
      return select(length == 0, 0, v / length) * g;
    };
    node.slot(0).take(kernels::broadcast_map("norm", along, node.input(0), kept,
                                             reshaped(node.take_gradient(), kept.shape())));
  });
}

}  // namespace rowgrad
