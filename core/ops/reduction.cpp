#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
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
  Reduced(const Reduced&) = delete;  // values_ may refer to moved_

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

  // Folds each column k with state = f(state, x, k). Joins states with combine(state, state).
  Columns<N> fold(Wide start, const auto& f, const auto& combine) const {
    Columns<N> states;
    states.fill(start);
    if constexpr (N == 1) {
      Columns<kSideBySide> parts;
      parts.fill(start);
      const std::span<const real> row{values_ + begin_, extent_};
      std::size_t i = 0;
      for (; i + parts.size() <= row.size(); i += parts.size())
        for (std::size_t k = 0; k < parts.size(); ++k) parts[k] = f(parts[k], row[i + k], 0);
      for (; i < row.size(); ++i) parts[0] = f(parts[0], row[i], 0);
      states[0] = std::accumulate(parts.begin(), parts.end(), start, combine);
    } else {
      for_each([&](real x, std::size_t, std::size_t k) { states[k] = f(states[k], x, k); });
    }
    return states;
  }
  // Returns Σ f(x, k) over each column k.
  Columns<N> sum(const auto& f) const {
    return fold(
        0, [&f](Wide sum, real x, std::size_t k) { return sum + f(x, k); }, std::plus<>());
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

// Records a reduction. values(block) returns the result of each column. slope(block, y, g) returns
// a function of x and k: the gradient of x in column k, given the results y and their gradients g.
Variable reduction(OpName op, const Variable& x, const std::vector<int>& axes, KeepAxes keep,
                   const auto& values, const auto& slope) {
  const std::vector<bool> marked = resolve_axes(op, axes, x.shape().size());
  Tensor value = empty(reduced_shape(x.shape(), marked, keep));
  for_each_block(Reduced(x.read(), marked), [&](const auto& block) {
    const auto columns = values(block);
    for (std::size_t k = 0; k < block.width(); ++k)
      value.data()[block.result(k)] = static_cast<real>(columns[k]);
  });
  return record(op, {x}, std::move(value), [marked, slope](Backward& node) {
    const Reduced from(node.input(0), marked);
    Tensor dx = empty(from.values().shape());
    for_each_block(from, [&]<std::size_t N>(const Block<N>& block) {
      Columns<N> y{}, g{};
      for (std::size_t k = 0; k < block.width(); ++k) {
        y[k] = node.output().data()[block.result(k)];
        g[k] = node.gradient().data()[block.result(k)];
      }
      block.for_each(
          [f = slope(block, y, g), to = dx.data()](real element, std::size_t i, std::size_t k) {
            to[i] = static_cast<real>(f(element, k));
          });
    });
    node.slot(0).take(from.in_order_of_x(std::move(dx)));
  });
}

// Returns the number of elements that are reduced to one.
std::size_t reduced_extent(std::string_view op, const Shape& shape, const std::vector<int>& axes) {
  std::size_t extent = 1;
  resolve_axes(op, axes, shape.size());
  for (const int axis : axes)
    extent *= AxisView(shape, resolve_axis(op, axis, shape.size())).extent;
  return extent;
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
  const std::size_t extent = reduced_extent(op, x.shape(), axes);
  const auto divisor = static_cast<Wide>(static_cast<double>(extent) - options.correction);
  check_argument(divisor > 0, std::string_view(op), ": correction is ", options.correction,
                 ", expected less than ", extent, ", the number of elements");
  const auto values = [=](const auto& block) {
    return variances(block, Distances(block), divisor, is_root);
  };
  return reduction(op, x, axes, options.keep, values, [=](const auto& block, auto, const auto& g) {
    const Distances distances(block);
    // d var / dx = 2 distance / divisor, d stddev / dx = distance / stddev / divisor
    auto factors = variances(block, distances, divisor, is_root);
    for (std::size_t k = 0; k < block.width(); ++k) {
      const Wide slope = is_root ? (factors[k] == 0 ? 0 : 1 / factors[k]) : 2;
      factors[k] = slope * (g[k] / divisor);
    }
    return [=](real element, std::size_t k) { return distances(element, k) * factors[k]; };
  });
}

// Records the element that is larger, or smaller, than all others, or NaN. All elements are
// `better` than `worst`, or equal.
Variable extreme(OpName op, const Variable& x, const std::vector<int>& axes, KeepAxes keep,
                 Wide worst, const auto& better) {
  check_argument(reduced_extent(op, x.shape(), axes) > 0, std::string_view(op), ": axes ",
                 bracketed(axes), " of ", bracketed(x.shape()),
                 " are empty, expected at least one element");
  const auto best = [=](const auto& block) {
    const auto choose = [=](Wide a, Wide b, auto...) { return better(b, a) || b != b ? b : a; };
    return block.fold(worst, choose, choose);
  };
  return reduction(op, x, axes, keep, best, [](const auto& block, const auto& y, const auto& g) {
    const auto is_best = [y](real element, std::size_t k) {
      return element == y[k] || (std::isnan(element) && std::isnan(y[k]));
    };
    const auto counts = block.sum(is_best);
    return [=](real element, std::size_t k) { return is_best(element, k) ? g[k] / counts[k] : 0; };
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

// Calls step(state, i) for each index i along one axis, from the last one if `reverse`. A few
// columns at a time, each with a state in double precision.
void scan(const Shape& shape, std::size_t axis, bool reverse, double start, const auto& step) {
  constexpr std::size_t kColumns = 4 * Simd::size;
  const AxisView view(shape, axis);
  const std::size_t column_blocks = (view.inner + kColumns - 1) / kColumns;
  const auto scan_columns = [=](std::size_t block) {
    const std::size_t first = block % column_blocks * kColumns;
    const std::size_t width = std::min(kColumns, view.inner - first);
    std::array<double, kColumns> states;
    states.fill(start);
    for (std::size_t i = 0; i < view.extent; ++i) {
      const std::size_t entry = reverse ? view.extent - 1 - i : i;
      const std::size_t at = (block / column_blocks * view.extent + entry) * view.inner + first;
      for (std::size_t k = 0; k < width; ++k) step(states[k], at + k);
    }
  };
  const std::size_t work = std::min(kColumns, view.inner) * view.extent;
  kernels::parallel_for_each(view.outer * column_blocks, work, scan_columns);
}

Tensor running_sums(const Tensor& x, std::size_t axis, bool reverse) {
  Tensor y = empty(x.shape());
  scan(x.shape(), axis, reverse, 0, [from = x.data(), to = y.data()](double& sum, std::size_t i) {
    to[i] = static_cast<real>(sum += static_cast<double>(from[i]));
  });
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

Variable cumprod(const Variable& x, int axis) {
  const std::size_t along = resolve_axis("cumprod", axis, x.shape().size());
  Tensor y = empty(x.shape());
  scan(x.shape(), along, false, 1,
       [from = x.read().data(), to = y.data()](double& product, std::size_t i) {
         to[i] = static_cast<real>(product *= static_cast<double>(from[i]));
       });
  return record("cumprod", {x}, std::move(y), [along](Backward& node) {
    // dx[i] = x[0] … x[i − 1] r[i], where r[i] = g[i] + x[i + 1] r[i + 1]. Without divisions, zeros
    // need no special case.
    const Tensor& of_x = node.input(0);
    Tensor dx = empty(of_x.shape());
    std::vector<double, PoolAllocator<double>> rests(dx.size());
    scan(dx.shape(), along, true, 0,
         [x = of_x.data(), g = node.gradient().data(), to = rests.data()](double& rest,
                                                                          std::size_t i) {
           to[i] = static_cast<double>(g[i]) + rest;
           rest = to[i] * static_cast<double>(x[i]);
         });
    scan(dx.shape(), along, false, 1,
         [x = of_x.data(), r = rests.data(), to = dx.data()](double& product, std::size_t i) {
           to[i] = static_cast<real>(product * r[i]);
           product *= static_cast<double>(x[i]);
         });
    node.slot(0).take(std::move(dx));
  });
}

Variable prod(const Variable& x) { return prod(x, all_axes(x)); }

Variable prod(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  const auto multiply = [](Wide a, Wide b, auto...) { return a * b; };
  const auto products = [=](const auto& block) { return block.fold(1, multiply, multiply); };
  return reduction("prod", x, axes, keep, products, [=](const auto& block, auto, const auto& g) {
    const auto multiply_nonzero = [](Wide a, real b, std::size_t) { return b == 0 ? a : a * b; };
    const auto others = block.fold(1, multiply_nonzero, multiply);
    const auto zeros = block.sum([](real element, std::size_t) { return element == 0; });
    return [=](real element, std::size_t k) {
      const Wide all = g[k] * others[k];
      if (zeros[k] == 0) return all / element;
      if (element == 0) return zeros[k] == 1 ? all : 0;
      return 0 * (std::isfinite(element) ? all : g[k]);
    };
  });
}

Variable amax(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  return extreme("amax", x, axes, keep, -std::numeric_limits<Wide>::infinity(), std::greater<>());
}
Variable amin(const Variable& x, const std::vector<int>& axes, KeepAxes keep) {
  return extreme("amin", x, axes, keep, std::numeric_limits<Wide>::infinity(), std::less<>());
}
Variable max(const Variable& x) { return amax(x, all_axes(x)); }
Variable min(const Variable& x) { return amin(x, all_axes(x)); }

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

Variable vector_norm(const Variable& x, double order) { return vector_norm(x, order, all_axes(x)); }

Variable vector_norm(const Variable& x, double order, const std::vector<int>& axes, KeepAxes keep) {
  check_argument(order > 0, "vector_norm: order is ", order, ", expected more than 0");
  resolve_axes("vector_norm", axes, x.shape().size());
  if (order == 1) return sum(abs(x), axes, keep);
  if (order == 2) return norm(x, axes, keep);
  if (std::isinf(order)) return extreme("vector_norm", abs(x), axes, keep, 0, std::greater<>());
  const Wide p = order;
  const auto norms = [p](const auto& block) {  // relative to the largest element, so that no power
    const auto choose = [](Wide a, Wide b, auto...) {  // overflows
      return std::abs(b) > a || b != b ? std::abs(b) : a;
    };
    auto result = block.fold(0, choose, choose);
    const auto sums = block.sum([=](real element, std::size_t k) {
      return std::pow(std::abs(Wide{element}) / result[k], p);
    });
    for (std::size_t k = 0; k < block.width(); ++k)
      if (result[k] > 0 && std::isfinite(result[k])) result[k] *= std::pow(sums[k], 1 / p);
    return result;
  };
  return reduction("vector_norm", x, axes, keep, norms, [p](auto&, const auto& y, const auto& g) {
    return [=](real element, std::size_t k) {
      const Wide size = std::pow(std::abs(Wide{element}) / y[k], p - 1) * g[k];
      return element == 0 ? 0 : element < 0 ? -size : size;
    };
  });
}

}  // namespace rowgrad
