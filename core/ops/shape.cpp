#include <algorithm>
#include <functional>
#include <numeric>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/ops/selection.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

void copy_or_add(const real* from, std::size_t count, real* to, bool add) {
  if (add)
    kernels::map_span(count, to, std::plus<>(), to, from);
  else
    std::copy_n(from, count, to);
}

// A part of an axis: `count` indices from `first` on, `step` apart.
struct AxisPart {
  AxisView whole;
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t step = 1;

  // Copies the part from an array of the whole shape to `to` or, if `add`, adds the part.
  void take(const real* from, real* to, bool add) const {
    for_each_run([=](std::size_t in_whole, std::size_t in_part, std::size_t length) {
      copy_or_add(from + in_whole, length, to + in_part, add);
    });
  }

  // Copies an array of the part's shape into the whole array `to` or, if `add`, adds the array.
  void put(const real* from, real* to, bool add) const {
    for_each_run([=](std::size_t in_whole, std::size_t in_part, std::size_t length) {
      copy_or_add(from + in_part, length, to + in_whole, add);
    });
  }

 private:
  // Calls f(offset in the whole, offset in the part, length) for each run of adjacent elements, in
  // parallel. With a step of 1, adjacent indices form one run.
  void for_each_run(const auto& f) const {
    const std::size_t runs = step == 1 ? 1 : count;
    const std::size_t length = step == 1 ? count * whole.inner : whole.inner;
    if (runs * length == 0) return;
    const std::size_t stride = step * whole.inner;  // distance between the starts of runs
    const std::size_t grain = kernels::row_grain(runs * length);
    kernels::parallel_for(whole.outer, grain, [=, *this](std::size_t begin, std::size_t end) {
      std::size_t in_part = begin * runs * length;
      for (std::size_t row = begin; row < end; ++row) {
        std::size_t in_whole = (row * whole.extent + first) * whole.inner;
        for (std::size_t run = 0; run < runs; ++run, in_whole += stride, in_part += length)
          f(in_whole, in_part, length);
      }
    });
  }
};

// Returns the index of an axis of x, which must not be a scalar.
std::size_t resolve_axis_of(std::string_view op, int axis, const Variable& x) {
  check_argument(!x.shape().empty(), op, ": x is a scalar, expected at least one axis");
  return resolve_axis(op, axis, x.shape().size());
}

// Records x, viewed with shape `from`, broadcast to shape `to`, as a variable of shape `shape`.
Variable broadcast(OpName op, const Variable& x, const Shape& from, const Shape& to,
                   const Shape& shape) {
  element_count(to, op);
  Tensor value = empty(to);
  kernels::broadcast_into(
      value, [](Simd v) { return v; }, reshaped(x.read(), from));
  return record(op, {x}, reshaped(std::move(value), shape), [from, to](Backward& node) {
    Tensor sums = kernels::sum_to(reshaped(node.take_gradient(), to), from);
    node.slot(0).take(reshaped(std::move(sums), node.input_shape(0)));
  });
}

// Selects elements of one axis: element i of the result is element source(i) of x.
Variable rearrange(const Variable& x, std::size_t along, const auto& source) {
  const std::size_t extent = AxisView(x.shape(), along).extent;
  Ids ids = Ids::from_shape({extent});
  for (std::size_t i = 0; i < extent; ++i) ids.data()[i] = static_cast<std::int32_t>(source(i));
  return index_select(x, static_cast<int>(along), ids);
}

// Sets the elements (i, j) of matrices to 0 where compare(j − i, diagonal).
Variable triangle(std::string_view op, const Variable& x, std::ptrdiff_t diagonal,
                  const auto& compare) {
  const std::size_t rank = x.shape().size();
  check_argument(rank >= 2, op, ": x has shape ", bracketed(x.shape()),
                 ", expected [..., rows, columns]");
  Tensor mask = empty({x.shape()[rank - 2], x.shape()[rank - 1]});
  real* to = mask.data();
  for (std::size_t row = 0; row < mask.shape(0); ++row)
    for (std::size_t column = 0; column < mask.shape(1); ++column)
      *to++ = compare(static_cast<std::ptrdiff_t>(column - row), diagonal);
  return masked_fill(x, x.tape().constant(std::move(mask)), 0);
}

}  // namespace

Tensor permuted(const Tensor& x, const std::vector<std::size_t>& axes) {
  if (axes.empty()) return x;
  Shape shape(axes.size());
  std::vector<std::size_t> strides(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const AxisView view(x.shape(), axes[i]);
    shape[i] = view.extent;
    strides[i] = view.inner;
  }
  Tensor result = empty(shape);
  if (result.size() == 0) return result;
  const std::size_t inner = shape.back();
  const std::size_t step = strides.back();
  kernels::parallel_for_each(result.size() / inner, inner, [&](std::size_t row) {
    const real* from = x.data();
    std::size_t rest = row;
    for (std::size_t axis = axes.size() - 1; axis-- > 0; rest /= shape[axis])
      from += rest % shape[axis] * strides[axis];
    real* const to = result.data() + row * inner;
    if (step == 1)
      std::copy_n(from, inner, to);
    else
      for (std::size_t i = 0; i < inner; ++i) to[i] = from[i * step];
  });
  return result;
}

Variable reshape(const Variable& x, const Shape& shape) {
  const std::size_t count = element_count(shape, "reshape");
  check_argument(count == x.value().size(), "reshape: x has shape ", bracketed(x.shape()), " with ",
                 x.value().size(), " elements, expected ", count, " for shape ", bracketed(shape));
  Tensor copy = kernels::map([](Simd v) { return v; }, x.read());  // copies in parallel
  return record("reshape", {x}, reshaped(std::move(copy), shape), [](Backward& node) {
    node.slot(0).take(reshaped(node.take_gradient(), node.input_shape(0)));
  });
}

Variable permute(const Variable& x, const std::vector<int>& axes) {
  const std::size_t rank = x.shape().size();
  check_argument(axes.size() == rank, "permute: axes are ", bracketed(axes),
                 ", expected a permutation of the ", rank, " axes of ", bracketed(x.shape()));
  resolve_axes("permute", axes, rank);
  std::vector<std::size_t> order(rank);
  std::vector<std::size_t> inverse(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    order[i] = resolve_axis("permute", axes[i], rank);
    inverse[order[i]] = i;
  }
  return record("permute", {x}, permuted(x.read(), order), [inverse](Backward& node) {
    node.slot(0).take(permuted(node.gradient(), inverse));
  });
}

Variable transpose(const Variable& x, int first, int second) {
  const std::size_t rank = x.shape().size();
  std::vector<int> axes(std::max<std::size_t>(rank, 1));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[resolve_axis("transpose", first, rank)],
            axes[resolve_axis("transpose", second, rank)]);
  axes.resize(rank);
  return permute(x, axes);
}

Variable concatenate(const std::vector<Variable>& parts, int axis) {
  check_argument(!parts.empty(), "concatenate: no variables were given, expected at least one");
  const Shape& first = parts.front().shape();
  const std::size_t along = resolve_axis_of("concatenate", axis, parts.front());
  Shape shape = first;
  shape[along] = 0;
  for (const Variable& part : parts) {
    Shape expected = part.shape();
    check_argument(expected.size() == first.size(), "concatenate: shapes ", bracketed(first),
                   " and ", bracketed(part.shape()), " differ in rank, expected equal ranks");
    shape[along] += expected[along];
    expected[along] = first[along];
    check_argument(expected == first, "concatenate: shapes ", bracketed(first), " and ",
                   bracketed(part.shape()), " differ, expected equal shapes except for axis ",
                   axis);
  }

  Tensor value = empty(shape);
  AxisPart place{.whole = AxisView(shape, along)};
  for (const Variable& part : parts) {
    place.count = part.shape()[along];
    place.put(part.read().data(), value.data(), false);
    place.first += place.count;
  }
  return record("concatenate", parts, std::move(value),
                [count = parts.size(), along, whole = place.whole](Backward& node) {
                  AxisPart source{.whole = whole};
                  for (std::size_t i = 0; i < count; ++i) {
                    GradientSlot part = node.slot(i);
                    source.count = node.input_shape(i)[along];
                    if (part) source.take(node.gradient().data(), part.data(), part.adds());
                    source.first += source.count;
                  }
                });
}

Variable slice(const Variable& x, int axis, std::ptrdiff_t begin, std::ptrdiff_t end,
               std::size_t step) {
  const std::size_t along = resolve_axis_of("slice", axis, x);
  const AxisView view(x.shape(), along);
  const auto extent = static_cast<std::ptrdiff_t>(view.extent);
  const std::ptrdiff_t first = begin < 0 ? begin + extent : begin;
  const std::ptrdiff_t last = end == kAxisEnd ? extent : end < 0 ? end + extent : end;
  check_argument(step >= 1, "slice: step is 0, expected at least 1");
  check_argument(0 <= first && first <= last && last <= extent, "slice: range is ", begin, " to ",
                 end == kAxisEnd ? extent : end, ", expected a range within an axis of length ",
                 extent);
  const auto length = static_cast<std::size_t>(last - first);
  const AxisPart part{.whole = view,
                      .first = static_cast<std::size_t>(first),
                      .count = length / step + (length % step != 0),
                      .step = step};
  Shape shape = x.shape();
  shape[along] = part.count;
  Tensor value = empty(shape);
  part.take(x.read().data(), value.data(), false);
  // If x already has a gradient from other ops, backward adds to it in place, so the cost does not
  // depend on the size of x.
  return record("slice", {x}, std::move(value), [part](Backward& node) {
    GradientSlot dx = node.slot(0);
    if (!dx.adds()) std::fill_n(dx.data(), element_count(node.input_shape(0)), real{0});
    part.put(node.gradient().data(), dx.data(), dx.adds());
  });
}

std::vector<Variable> split(const Variable& x, std::size_t length, int axis) {
  const std::size_t extent = x.shape()[resolve_axis_of("split", axis, x)];
  check_argument(length > 0, "split: length is 0, expected at least 1");
  std::vector<Variable> parts;
  std::size_t begin = 0;
  do {  // an empty axis has one part
    const std::size_t end = begin + std::min(length, extent - begin);
    parts.push_back(
        slice(x, axis, static_cast<std::ptrdiff_t>(begin), static_cast<std::ptrdiff_t>(end)));
    begin = end;
  } while (begin < extent);
  return parts;
}

std::vector<Variable> chunk(const Variable& x, std::size_t count, int axis) {
  const std::size_t extent = x.shape()[resolve_axis_of("chunk", axis, x)];
  check_argument(count > 0, "chunk: count is 0, expected at least 1");
  if (extent == 0) return std::vector<Variable>(count, slice(x, axis, 0));
  return split(x, extent / count + (extent % count != 0), axis);
}

std::vector<Variable> unbind(const Variable& x, int axis) {
  if (x.shape()[resolve_axis_of("unbind", axis, x)] == 0) return {};
  std::vector<Variable> parts = split(x, 1, axis);
  for (Variable& part : parts) part = squeeze(part, axis);
  return parts;
}

Variable unsqueeze(const Variable& x, int axis) {
  std::vector<std::size_t> shape(x.shape().begin(), x.shape().end());
  const std::size_t at = resolve_axis("unsqueeze", axis, shape.size() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
  return reshape(x, Shape(shape.begin(), shape.end()));
}

Variable squeeze(const Variable& x, int axis) {
  Shape shape = x.shape();
  const std::size_t at = resolve_axis("squeeze", axis, shape.size());
  if (shape.empty()) return x;
  check_argument(shape[at] == 1, "squeeze: axis ", axis, " of ", bracketed(shape), " has length ",
                 shape[at], ", expected 1");
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
  return reshape(x, shape);
}

Variable stack(const std::vector<Variable>& parts, int axis) {
  check_argument(!parts.empty(), "stack: no variables were given, expected at least one");
  resolve_axis("stack", axis, parts.front().shape().size() + 1);
  for (const Variable& part : parts)
    check_argument(part.shape() == parts.front().shape(), "stack: shapes ",
                   bracketed(parts.front().shape()), " and ", bracketed(part.shape()),
                   " differ, expected equal shapes");
  std::vector<Variable> rows;
  for (const Variable& part : parts) rows.push_back(unsqueeze(part, axis));
  return concatenate(rows, axis);
}

Variable expand(const Variable& x, const Shape& shape) {
  check_argument(shape.size() >= x.shape().size() &&
                     kernels::broadcast_shape("expand", x.shape(), shape) == shape,
                 "expand: x has shape ", bracketed(x.shape()),
                 ", expected a shape that broadcasts to ", bracketed(shape));
  return broadcast("expand", x, x.shape(), shape, shape);
}

Variable repeat(const Variable& x, const Shape& counts) {
  check_argument(counts.size() >= x.shape().size(), "repeat: counts are ", bracketed(counts),
                 ", expected at least one for each axis of ", bracketed(x.shape()));
  Shape shape(counts.size(), 1);
  std::copy_backward(x.shape().begin(), x.shape().end(), shape.end());
  Shape factors = counts;
  for (const std::size_t extent : shape) factors.push_back(extent);
  element_count(factors, "repeat");
  Variable result = counts.size() == x.shape().size() ? x : reshape(x, shape);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const AxisView view(shape, i);
    const std::size_t row = view.extent * view.inner;
    shape[i] *= counts[i];
    if (counts[i] != 1)
      result =
          broadcast("repeat", result, {view.outer, 1, row}, {view.outer, counts[i], row}, shape);
  }
  return result;
}

Variable flip(const Variable& x, const std::vector<int>& axes) {
  const std::vector<bool> marked = resolve_axes("flip", axes, x.shape().size());
  Variable result = x;
  for (std::size_t axis = 0; axis < marked.size(); ++axis)
    if (marked[axis])
      result = rearrange(result, axis, [&](std::size_t i) { return x.shape()[axis] - 1 - i; });
  return result;
}

Variable roll(const Variable& x, std::ptrdiff_t shift, int axis) {
  const std::size_t along = resolve_axis("roll", axis, x.shape().size());
  const auto extent = static_cast<std::ptrdiff_t>(AxisView(x.shape(), along).extent);
  return rearrange(x, along, [=](std::size_t i) {
    return (static_cast<std::ptrdiff_t>(i) - shift % extent + extent) % extent;
  });
}

Variable pad(const Variable& x, const std::vector<std::size_t>& amounts, real value) {
  const std::size_t rank = x.shape().size();
  check_argument(amounts.size() % 2 == 0 && amounts.size() <= 2 * rank, "pad: amounts are ",
                 bracketed(amounts), ", expected two for each of the last axes of ",
                 bracketed(x.shape()));
  for (const std::size_t amount : amounts) element_count({amount}, "pad");
  Variable result = x;
  for (std::size_t i = 0; i < amounts.size(); i += 2) {
    const auto added = [&](std::size_t amount) {
      Shape shape = result.shape();
      shape[rank - 1 - i / 2] = amount;
      return x.tape().constant(full(shape, value));
    };
    result = concatenate({added(amounts[i]), result, added(amounts[i + 1])},
                         -1 - static_cast<int>(i / 2));
  }
  return result;
}

Variable tril(const Variable& x, std::ptrdiff_t diagonal) {
  return triangle("tril", x, diagonal, std::greater<>());
}
Variable triu(const Variable& x, std::ptrdiff_t diagonal) {
  return triangle("triu", x, diagonal, std::less<>());
}

Variable causal_unfold(const Variable& x, std::size_t steps) {
  check_argument(steps > 0, "causal_unfold: steps is 0, expected at least 1");
  Shape shape = x.shape();
  check_argument(shape.size() >= 2, "causal_unfold: x has shape ", bracketed(shape),
                 ", expected [..., length, width]");
  if (steps == 1) return x;
  const std::size_t length = shape[shape.size() - 2];
  const std::size_t width = shape.back();
  shape.push_back(steps);
  element_count(shape, "causal_unfold");
  const std::size_t joined = steps * width;
  shape.pop_back();
  shape.back() = joined;
  const std::size_t rows = x.value().size() / std::max<std::size_t>(width, 1);
  // Calls body(row, position in the sequence) for all rows, in parallel.
  const auto for_each_row = [=](const auto& body) {
    kernels::parallel_for_each(rows, joined, [&](std::size_t row) { body(row, row % length); });
  };
  Tensor value = empty(shape);
  for_each_row([&](std::size_t row, std::size_t position) {
    const std::size_t missing = steps - std::min(steps, position + 1);
    real* const to = value.data() + row * joined;
    std::fill_n(to, missing * width, real{0});
    const real* const newest = x.read().data() + (row + 1) * width;
    std::copy(newest - (steps - missing) * width, newest, to + missing * width);
  });
  return record("causal_unfold", {x}, std::move(value), [=](Backward& node) {
    Tensor gradient = empty(node.input_shape(0));
    for_each_row([&](std::size_t row, std::size_t position) {
      // The row is the last of the joined rows at its own position, and one earlier at each later
      // position.
      const real* from = node.gradient().data() + (row + 1) * joined - width;
      real* const to = gradient.data() + row * width;
      std::copy_n(from, width, to);
      for (std::size_t later = 1; later < std::min(steps, length - position); ++later) {
        from += joined - width;
        kernels::map_span(width, to, std::plus<>(), to, from);
      }
    });
    node.slot(0).take(std::move(gradient));
  });
}

}  // namespace rowgrad
