#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/selection.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

// Returns share · g. A share of 0 gives 0 even if g is infinite.
Simd part(Simd share, Simd g) { return select(share == 0, 0, share * g); }

using Wide = std::conditional_t<sizeof(real) == 4, double, long double>;

// Runs of adjacent elements of an array x.
struct Runs {
  std::vector<std::size_t, PoolAllocator<std::size_t>> starts = {};  // offsets in x
  std::size_t length = 1;                                            // length of each run
  std::size_t groups = 0;  // equally long groups that share no start; 0 if no start repeats

  enum class Order { kAny, kForward, kReverse };

  // Calls f(offset in x, offset in the runs) for all elements. Unless `order` is kAny, runs with
  // the same start are visited in this order, so that f may write to x.
  void for_each(Order order, const auto& f) const {
    const std::size_t count = starts.size();
    const auto visit = [=, this](std::size_t run, std::size_t begin, std::size_t end) {
      const std::size_t start = starts[run];
      for (std::size_t i = begin; i < end; ++i) f(start + i, run * length + i);
    };
    if (order == Order::kAny || groups == 0 || count == 0)
      return kernels::parallel_for_each(count, length,
                                        [&](std::size_t run) { visit(run, 0, length); });
    const std::size_t group = count / groups;
    const std::size_t grain = std::max<std::size_t>(16, kernels::row_grain(group));
    kernels::parallel_for(groups * length, grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t next = begin; begin < end; begin = next) {
        const std::size_t first = begin / length * group, column = begin % length;
        next = std::min(end, begin + length - column);
        for (std::size_t k = 0; k < group; ++k)
          visit(first + (order == Order::kForward ? k : group - 1 - k), column,
                column + next - begin);
      }
    });
  }

  // Returns the largest number of runs with the same start in an array of `size` elements.
  std::size_t most(std::size_t size) const {
    if (groups == 0 || starts.empty() || length == 0) return 1;
    std::size_t result = 0;
    std::vector<std::size_t, PoolAllocator<std::size_t>> counts(size / length, 0);
    for (const std::size_t start : starts) result = std::max(result, ++counts[start / length]);
    return result;
  }

  // Copies the runs from x to `to`.
  void copy(const real* x, real* to) const {
    for_each(Order::kAny, [=](std::size_t in_x, std::size_t at) { to[at] = x[in_x]; });
  }

  // Adds `from` to the runs in x.
  void add(const real* from, Tensor& x) const {
    const std::size_t repeats = most(x.size());
    const auto add_to = [&](auto* sums) {
      for_each(repeats == 1 ? Order::kAny : Order::kForward,
               [=](std::size_t in_x, std::size_t at) { sums[in_x] += from[at]; });
    };
    if (repeats <= kernels::kRunningSum) return add_to(x.data());
    // a sum of many elements would be inaccurate as a `real`
    std::vector<Wide, PoolAllocator<Wide>> sums(x.size(), 0);
    add_to(sums.data());
    std::transform(sums.begin(), sums.end(), x.data(), x.data(),
                   [](Wide sum, real before) { return static_cast<real>(before + sum); });
  }
};

// Records runs of x as a variable of the given shape.
Variable take(OpName op, const Variable& x, Runs runs, const auto& shape) {
  Tensor value = empty({shape.begin(), shape.end()});
  runs.copy(x.read().data(), value.data());
  return record(op, {x}, std::move(value), [runs = std::move(runs)](Backward& node) {
    Tensor gradient = zeros(node.input_shape(0));
    runs.add(node.gradient().data(), gradient);
    node.slot(0).take(std::move(gradient));
  });
}

// Records x with its runs replaced by `source` or, if `add`, increased by it.
Variable put(OpName op, const Variable& x, Runs runs, const Variable& source, const auto& expected,
             bool add) {
  check_argument(std::ranges::equal(source.shape(), expected), std::string_view(op),
                 ": source has shape ", bracketed(source.shape()), ", expected ",
                 bracketed(expected));
  Tensor value = kernels::map([](Simd v) { return v; }, x.read());
  if (add)
    runs.add(source.read().data(), value);
  else
    runs.for_each(Runs::Order::kForward,
                  [to = value.data(), from = source.read().data()](
                      std::size_t in_x, std::size_t at) { to[in_x] = from[at]; });
  return record(op, {x, source}, std::move(value), [runs = std::move(runs), add](Backward& node) {
    Tensor of_source = empty(node.input_shape(1));
    Tensor of_x = node.take_gradient();
    if (add)
      runs.copy(of_x.data(), of_source.data());
    else  // the last write of an element gets its gradient, and earlier writes get 0
      runs.for_each(Runs::Order::kReverse,
                    [from = of_x.data(), to = of_source.data()](std::size_t in_x, std::size_t at) {
                      to[at] = std::exchange(from[in_x], 0);
                    });
    node.slot(0).take(std::move(of_x));
    node.slot(1).take(std::move(of_source));
  });
}

void check_ids(std::string_view op, const Ids& ids, std::ptrdiff_t low, std::size_t end,
               const auto&... place) {
  for (std::size_t k = 0; k < ids.size(); ++k)
    if (const std::int32_t id = ids.data()[k]; id < low || std::cmp_greater_equal(id, end))
      check_argument(false, op, ": id ", id, " at ", bracketed(index_at(ids.shape(), k)),
                     " is out of range for ", place...);
}

// Returns the elements that ids of the rank of x pick along an axis, as in gather().
Runs picks(std::string_view op, const Variable& x, int axis, const Ids& ids) {
  const Shape& shape = x.shape();
  const std::size_t along = resolve_axis(op, axis, shape.size());
  bool fits = ids.dimension() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i)
    fits = i == along || ids.shape()[i] <= shape[i];
  check_argument(fits, op, ": ids have shape ", bracketed(ids.shape()), " for x of shape ",
                 bracketed(shape),
                 ", expected the rank of x, and no axis longer than in x except axis ", axis);
  check_ids(op, ids, 0, AxisView(shape, along).extent, "axis ", axis, " of ", bracketed(shape));
  Runs runs;
  runs.starts.reserve(ids.size());
  runs.groups = AxisView({ids.shape().begin(), ids.shape().end()}, along).outer;
  for (std::size_t k = 0; k < ids.size(); ++k) {
    std::size_t offset = 0;
    std::size_t stride = 1;
    std::size_t rest = k;
    for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
      const std::size_t index = rest % ids.shape()[i];
      rest /= ids.shape()[i];
      offset += stride * (i == along ? static_cast<std::size_t>(ids.data()[k]) : index);
    }
    runs.starts.push_back(offset);
  }
  return runs;
}

// Returns the slices `ids` of an axis, and the shape of x with the axes of the ids instead of that
// axis. Negative ids count from the end.
std::pair<Runs, Shape> slices(std::string_view op, const Variable& x, int axis, const Ids& ids) {
  const std::size_t along = resolve_axis(op, axis, x.shape().size());
  const AxisView view(x.shape(), along);
  check_ids(op, ids, -static_cast<std::ptrdiff_t>(view.extent), view.extent, "axis ", axis, " of ",
            bracketed(x.shape()));
  check_argument(!x.shape().empty() || ids.size() == 1, op,
                 ": x is a scalar, expected at least one axis");
  Shape shape;
  for (std::size_t i = 0; i < x.shape().size(); ++i)
    if (i == along)
      for (const std::size_t extent : ids.shape()) shape.push_back(extent);
    else
      shape.push_back(x.shape()[i]);
  Runs runs{.length = view.inner, .groups = view.outer};
  runs.starts.reserve(view.outer * ids.size());
  for (std::size_t outer = 0; outer < view.outer; ++outer)
    for (const std::int32_t id : ids) {
      const std::size_t index = static_cast<std::size_t>(id) + (id < 0 ? view.extent : 0);
      runs.starts.push_back((outer * view.extent + index) * view.inner);
    }
  return {std::move(runs), shape};
}

// Indices along an axis, and the elements there.
struct Located {
  Ids indices;
  Runs elements;
};

// Locates `count` or all elements of each row along an axis. find(row, stride, length, count, to)
// writes the indices of the elements row[0], row[stride] … to to[0], to[stride] …
Located locate(std::string_view op, const Variable& x, int axis, std::optional<std::size_t> count,
               KeepAxes keep, std::size_t work, const auto& find) {
  const std::size_t along = resolve_axis(op, axis, x.shape().size());
  const AxisView view(x.shape(), along);
  const std::size_t most = count.value_or(view.extent);
  check_argument(std::in_range<std::int32_t>(view.extent), op, ": axis ", axis, " of ",
                 bracketed(x.shape()), " is too long, expected at most 2^31 - 1 elements");
  check_argument(view.extent > 0 || most == 0, op, ": axis ", axis, " of ", bracketed(x.shape()),
                 " is empty, expected at least one element");
  check_argument(most <= view.extent, op, ": count is ", most, ", expected at most ", view.extent,
                 ", the length of axis ", axis, " of ", bracketed(x.shape()));
  Shape shape = x.shape();
  if (!shape.empty()) shape[along] = most;
  if (!shape.empty() && keep == KeepAxes::kNo)
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(along));
  Located found{Ids::from_shape({shape.begin(), shape.end()}), {}};
  found.elements.starts.resize(found.indices.size());
  kernels::parallel_for_each(view.outer * view.inner, work * view.extent, [&](std::size_t row) {
    const std::size_t outer = row / view.inner, column = row % view.inner;
    const std::size_t first = outer * view.extent * view.inner + column;
    const std::size_t to = outer * most * view.inner + column;
    std::int32_t* const indices = found.indices.data();
    find(x.value().data() + first, view.inner, view.extent, most, indices + to);
    for (std::size_t i = to; i < to + most * view.inner; i += view.inner)
      found.elements.starts[i] = first + static_cast<std::size_t>(indices[i]) * view.inner;
  });
  return found;
}

// Locates the best element along one axis. better(a, b) must be true if a is NaN.
Located best_along(std::string_view op, const Variable& x, int axis, KeepAxes keep,
                   const auto& better) {
  return locate(op, x, axis, 1, keep, 1, [&](auto row, auto stride, auto length, auto, auto to) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < length && !std::isnan(row[best * stride]); ++i)
      if (better(row[i * stride], row[best * stride])) best = i;
    *to = static_cast<std::int32_t>(best);
  });
}

constexpr auto kLarger = [](real a, real b) { return !(a <= b); };
constexpr auto kSmaller = [](real a, real b) { return !(a >= b); };

// Returns an integer that is ordered like x, with NaN as the largest number.
auto sort_key(real x, SortOrder order) {
  using Key = std::conditional_t<sizeof(real) == 4, std::uint32_t, std::uint64_t>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  const auto bits = std::bit_cast<Key>(x + real{0});  // +0 for both zeros
  const Key key = std::isnan(x) ? ~Key{0} : (bits & kSign) != 0 ? ~bits : bits | kSign;
  return order == SortOrder::kAscending ? key : ~key;
}

Located sorted_along(std::string_view op, const Variable& x, int axis, SortOrder order,
                     std::optional<std::size_t> count = std::nullopt) {
  using Entry = std::pair<decltype(sort_key(0, order)), std::int32_t>;  // key and index
  const auto find = [order](auto row, auto stride, auto length, auto most, auto to) {
    std::vector<Entry, PoolAllocator<Entry>> entries(length);
    for (std::size_t i = 0; i < length; ++i)
      entries[i] = {sort_key(row[i * stride], order), static_cast<std::int32_t>(i)};
    const auto last = entries.begin() + static_cast<std::ptrdiff_t>(most);
    if (most < length) std::nth_element(entries.begin(), last, entries.end());
    std::sort(entries.begin(), last);
    for (std::size_t i = 0; i < most; ++i) to[i * stride] = entries[i].second;
  };
  return locate(op, x, axis, count, KeepAxes::kYes, 8, find);
}

Sorted taken(OpName op, const Variable& x, Located found) {
  Variable values = take(op, x, std::move(found.elements), found.indices.shape());
  return {std::move(values), std::move(found.indices)};
}

void check_mask(std::string_view op, const Variable& x, const Variable& mask) {
  check_state(&mask.tape() == &x.tape(), op, ": mask belongs to another tape");
  check_argument(kernels::broadcast_shape(op, x.shape(), mask.shape()) == x.shape(), op,
                 ": mask has shape ", bracketed(mask.shape()),
                 ", expected a shape that broadcasts to ", bracketed(x.shape()));
}

Variable on_tape_of(const Variable& x, real number) { return x.tape().constant(scalar(number)); }

// Records f(a, b), where a gets the fraction share(a, b) of the gradient, and b gets share(b, a).
Variable choice(OpName op, const Variable& a, const Variable& b, const auto& f, auto share) {
  return pointwise(
      op, a, b, f, [share](Simd g, Simd x, Simd y) { return part(share(x, y), g); },
      [share](Simd g, Simd x, Simd y) { return part(share(y, x), g); });
}

}  // namespace

Variable maximum(const Variable& a, const Variable& b) {
  return choice(
      "maximum", a, b, [](Simd x, Simd y) { return select(x > y || isnan(x), x, y); },
      [](Simd own, Simd other) { return select(own < other, 0, select(own == other, 0.5, 1)); });
}

Variable minimum(const Variable& a, const Variable& b) {
  return choice(
      "minimum", a, b, [](Simd x, Simd y) { return select(x < y || isnan(x), x, y); },
      [](Simd own, Simd other) { return select(own > other, 0, select(own == other, 0.5, 1)); });
}

Variable maximum(const Variable& x, real number) { return maximum(x, on_tape_of(x, number)); }
Variable minimum(const Variable& x, real number) { return minimum(x, on_tape_of(x, number)); }

Variable max(const Variable& x, int axis, KeepAxes keep) {
  return taken("max", x, best_along("max", x, axis, keep, kLarger)).values;
}
Variable min(const Variable& x, int axis, KeepAxes keep) {
  return taken("min", x, best_along("min", x, axis, keep, kSmaller)).values;
}

Ids argmax(const Variable& x, int axis, KeepAxes keep) {
  return best_along("argmax", x, axis, keep, kLarger).indices;
}
Ids argmin(const Variable& x, int axis, KeepAxes keep) {
  return best_along("argmin", x, axis, keep, kSmaller).indices;
}

Sorted sort(const Variable& x, int axis, SortOrder order) {
  return taken("sort", x, sorted_along("sort", x, axis, order));
}
Ids argsort(const Variable& x, int axis, SortOrder order) {
  return sorted_along("argsort", x, axis, order).indices;
}
Sorted topk(const Variable& x, std::size_t count, int axis, SortOrder order) {
  return taken("topk", x, sorted_along("topk", x, axis, order, count));
}

Variable gather(const Variable& x, int axis, const Ids& ids) {
  return take("gather", x, picks("gather", x, axis, ids), ids.shape());
}

Variable scatter(const Variable& x, int axis, const Ids& ids, const Variable& source) {
  return put("scatter", x, picks("scatter", x, axis, ids), source, ids.shape(), false);
}

Variable scatter_add(const Variable& x, int axis, const Ids& ids, const Variable& source) {
  return put("scatter_add", x, picks("scatter_add", x, axis, ids), source, ids.shape(), true);
}

Variable index_select(const Variable& x, int axis, const Ids& ids) {
  auto [runs, shape] = slices("index_select", x, axis, ids);
  return take("index_select", x, std::move(runs), shape);
}

Variable index_add(const Variable& x, int axis, const Ids& ids, const Variable& source) {
  auto [runs, shape] = slices("index_add", x, axis, ids);
  return put("index_add", x, std::move(runs), source, shape, true);
}

Ids nonzero(const Variable& mask) {
  const std::size_t count = mask.value().size();
  check_argument(mask.shape().size() == 1 && std::in_range<std::int32_t>(count),
                 "nonzero: mask has shape ", bracketed(mask.shape()),
                 ", expected one axis of at most 2^31 - 1 elements");
  std::vector<std::int32_t> found;
  for (std::size_t i = 0; i < count; ++i)
    if (mask.value().data()[i] != 0) found.push_back(static_cast<std::int32_t>(i));
  return found;
}

Variable masked_select(const Variable& x, const Variable& mask) {
  check_mask("masked_select", x, mask);
  Tensor chosen = empty(x.shape());
  kernels::broadcast_into(
      chosen, [](Simd v) { return v; }, mask.read());
  Runs runs;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (chosen.data()[i] != 0) runs.starts.push_back(i);
  const Shape shape{runs.starts.size()};
  return take("masked_select", x, std::move(runs), shape);
}

Tensor one_hot(const Ids& ids, std::size_t classes) {
  check_ids("one_hot", ids, 0, classes, classes, " classes");
  Shape shape(ids.shape().begin(), ids.shape().end());
  shape.push_back(classes);
  Tensor result = zeros(shape);
  for (std::size_t k = 0; k < ids.size(); ++k)
    result.data()[k * classes + static_cast<std::size_t>(ids.data()[k])] = 1;
  return result;
}

Variable where(const Variable& condition, const Variable& a, const Variable& b) {
  check_state(&condition.tape() == &a.tape(), "where: condition belongs to another tape");
  const auto choose = [](Simd c, Simd x, Simd y) { return select(c == 0, y, x); };
  Tensor value = kernels::broadcast_map("where", choose, condition.read(), a.read(), b.read());
  return record("where", {a, b}, std::move(value), [mask = condition.read()](Backward& node) {
    const auto add_gradient = [&](std::size_t i, const auto& f) {
      if (GradientSlot slot = node.slot(i))
        slot.take(kernels::sum_to(kernels::broadcast_map("where", f, mask, node.gradient()),
                                  node.input_shape(i)));
    };
    add_gradient(0, [](Simd c, Simd g) { return select(c == 0, 0, g); });
    add_gradient(1, [](Simd c, Simd g) { return select(c == 0, g, 0); });
  });
}

Variable where(const Variable& condition, const Variable& a, real b) {
  return where(condition, a, on_tape_of(a, b));
}
Variable where(const Variable& condition, real a, const Variable& b) {
  return where(condition, on_tape_of(b, a), b);
}

Variable masked_fill(const Variable& x, const Variable& mask, real value) {
  check_mask("masked_fill", x, mask);
  return where(mask, value, x);
}

}  // namespace rowgrad
