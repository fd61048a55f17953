#include <algorithm>
#include <functional>
#include <numeric>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/layout.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {

Variable reshape(const Variable& x, const Shape& shape) {
  const std::size_t count = element_count(shape, "reshape");
  check_argument(count == x.value().size(), "reshape: ", bracketed(x.shape()), " has ",
                 x.value().size(), " numbers, ", bracketed(shape), " would have ", count);
  return record("reshape", {x}, reshaped(x.value(), shape), [](Backward& node) {
    node.give(0, reshaped(node.take_gradient(), node.input_shape(0)));
  });
}

Variable permute(const Variable& x, const std::vector<int>& axes) {
  const std::size_t rank = x.shape().size();
  check_argument(axes.size() == rank, "permute: axes ", bracketed(axes), " name ", axes.size(),
                 " of the ", rank, " axes of ", bracketed(x.shape()));
  resolve_axes("permute", axes, rank);
  std::vector<std::size_t> order(rank);
  std::vector<std::size_t> inverse(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    order[i] = resolve_axis("permute", axes[i], rank);
    inverse[order[i]] = i;
  }
  return record("permute", {x}, kernels::permute(x.value(), order), [inverse](Backward& node) {
    node.give(0, kernels::permute(node.gradient(), inverse));
  });
}

Variable transpose(const Variable& x, int first, int second) {
  const std::size_t rank = x.shape().size();
  std::vector<int> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[resolve_axis("transpose", first, rank)],
            axes[resolve_axis("transpose", second, rank)]);
  return permute(x, axes);
}

Variable concatenate(const std::vector<Variable>& parts, int axis) {
  check_argument(!parts.empty(), "concatenate: there is nothing to concatenate");
  const Shape& first = parts.front().shape();
  const std::size_t along = resolve_axis("concatenate", axis, first.size());
  Shape shape = first;
  shape[along] = 0;
  for (const Variable& part : parts) {
    Shape expected = part.shape();
    check_argument(expected.size() == first.size(), "concatenate: shapes ", bracketed(first),
                   " and ", bracketed(part.shape()), " differ in rank");
    shape[along] += expected[along];
    expected[along] = first[along];
    check_argument(expected == first, "concatenate: shapes ", bracketed(first), " and ",
                   bracketed(part.shape()), " differ on another axis than ", axis);
  }

  Tensor value = empty(shape);
  const AxisView whole(shape, along);
  const std::size_t row = whole.extent * whole.inner;
  std::size_t offset = 0;
  for (const Variable& part : parts) {
    const std::size_t length = part.shape()[along] * whole.inner;
    if (part.value().size() > 0)
      kernels::copy_blocks(part.value().data(), length, value.data() + offset, row, length,
                           whole.outer);
    offset += length;
  }
  return record("concatenate", parts, std::move(value),
                [count = parts.size(), along, whole, row](Backward& node) {
                  std::size_t from = 0;
                  for (std::size_t i = 0; i < count; ++i) {
                    const std::size_t length = node.input_shape(i)[along] * whole.inner;
                    node.into(i, [&](real* to, bool add) {
                      if (length == 0) return;
                      const auto move = add ? kernels::add_blocks : kernels::copy_blocks;
                      move(node.gradient().data() + from, row, to, length, length, whole.outer);
                    });
                    from += length;
                  }
                });
}

Variable slice(const Variable& x, int axis, std::ptrdiff_t begin, std::ptrdiff_t end,
               std::size_t step) {
  const std::size_t along = resolve_axis("slice", axis, x.shape().size());
  const AxisView view(x.shape(), along);
  const auto extent = static_cast<std::ptrdiff_t>(view.extent);
  const std::ptrdiff_t first = begin < 0 ? begin + extent : begin;
  const std::ptrdiff_t last = end == kAxisEnd ? extent : end < 0 ? end + extent : end;
  check_argument(step >= 1, "slice: step is 0");
  check_argument(0 <= first && first <= last && last <= extent, "slice: entries ", begin, " to ",
                 end == kAxisEnd ? extent : end, " do not lie in an axis of ", extent);
  const auto length = static_cast<std::size_t>(last - first);
  const std::size_t count = length / step + (length % step != 0);

  Shape shape = x.shape();
  shape[along] = count;
  Tensor value = empty(shape);
  const std::size_t start = static_cast<std::size_t>(first) * view.inner;
  // Adjacent entries of the axis are contiguous: one copy for a step of 1, otherwise one per entry.
  auto for_each_run = [view, start, step, count](auto copy) {
    if (view.outer * view.inner == 0) return;
    if (step == 1) return copy(start, std::size_t{0}, count * view.inner);
    for (std::size_t i = 0; i < count; ++i)
      copy(start + i * step * view.inner, i * view.inner, view.inner);
  };
  const std::size_t row = view.extent * view.inner;
  const std::size_t sliced_row = count * view.inner;
  for_each_run([&](std::size_t from, std::size_t to, std::size_t run) {
    kernels::copy_blocks(x.value().data() + from, row, value.data() + to, sliced_row, run,
                         view.outer);
  });
  // Where other ops have given x a gradient already, the slice's part is added to it in place: all
  // slices of x together cost about as much as x, however many they are.
  return record("slice", {x}, std::move(value), [=](Backward& node) {
    node.into(0, [&](real* dx, bool add) {
      if (!add) std::fill_n(dx, view.outer * row, real{0});
      const auto move = add ? kernels::add_blocks : kernels::copy_blocks;
      for_each_run([&](std::size_t to, std::size_t from, std::size_t run) {
        move(node.gradient().data() + from, sliced_row, dx + to, row, run, view.outer);
      });
    });
  });
}

std::vector<Variable> split(const Variable& x, std::size_t length, int axis) {
  const std::size_t extent = x.shape()[resolve_axis("split", axis, x.shape().size())];
  check_argument(length > 0, "split: the length is 0");
  std::vector<Variable> parts;
  for (std::size_t begin = 0; begin < extent; begin += length)
    parts.push_back(slice(x, axis, static_cast<std::ptrdiff_t>(begin),
                          static_cast<std::ptrdiff_t>(std::min(extent, begin + length))));
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
  check_argument(shape[at] == 1, "squeeze: axis ", axis, " of ", bracketed(shape),
                 " is not of length 1");
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
  return reshape(x, shape);
}

Variable stack(const std::vector<Variable>& parts, int axis) {
  std::vector<Variable> rows;
  for (const Variable& part : parts) {
    check_argument(part.shape() == parts.front().shape(), "stack: shapes ",
                   bracketed(parts.front().shape()), " and ", bracketed(part.shape()), " differ");
    rows.push_back(unsqueeze(part, axis));
  }
  return concatenate(rows, axis);
}

Variable look_back(const Variable& x, std::size_t steps) {
  check_argument(steps > 0, "look_back: steps must be above 0");
  Shape shape = x.shape();
  check_argument(shape.size() >= 2, "look_back: x has shape ", bracketed(shape),
                 ", expected [..., length, width]");
  if (steps == 1) return x;
  const std::size_t length = shape[shape.size() - 2];
  const std::size_t width = shape.back();
  shape.push_back(steps);
  element_count(shape, "look_back");
  const std::size_t joined = steps * width;
  shape.pop_back();
  shape.back() = joined;
  const std::size_t rows = x.value().size() / std::max<std::size_t>(width, 1);
  // Calls body(row, its position in the text) for all rows, in parallel.
  const auto for_each_row = [=](const auto& body) {
    kernels::parallel_for(rows, kernels::row_grain(joined),
                          [&](std::size_t begin, std::size_t end) {
                            for (std::size_t row = begin; row < end; ++row) body(row, row % length);
                          });
  };
  Tensor value = empty(shape);
  for_each_row([&](std::size_t row, std::size_t position) {
    const std::size_t missing = steps - std::min(steps, position + 1);
    real* const to = value.data() + row * joined;
    std::fill_n(to, missing * width, real{0});
    const real* const newest = x.value().data() + (row + 1) * width;
    std::copy(newest - (steps - missing) * width, newest, to + missing * width);
  });
  return record("look_back", {x}, std::move(value), [=](Backward& node) {
    Tensor gradient = empty(node.input_shape(0));
    for_each_row([&](std::size_t row, std::size_t position) {
      // In the results of this position and of those after it, the row moves from last to first.
      const real* from = node.gradient().data() + (row + 1) * joined - width;
      real* const to = gradient.data() + row * width;
      std::copy_n(from, width, to);
      for (std::size_t later = 1; later < std::min(steps, length - position); ++later) {
        from += joined - width;
        kernels::map_span(width, to, std::plus<>(), to, from);
      }
    });
    node.give(0, std::move(gradient));
  });
}

}  // namespace rowgrad
