#include <algorithm>
#include <cmath>
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

// The best elements along an axis, and their indices.
struct Best {
  Tensor values;
  Ids indices;
};

// Returns the best elements along one axis. better(a, b) must be true if a is NaN.
Best best_along(std::string_view op, const Tensor& x, int axis, const auto& better) {
  const std::size_t along = resolve_axis(op, axis, x.shape().size());
  const AxisView view(x.shape(), along);
  check_argument(view.extent > 0, op, ": axis ", axis, " of ", bracketed(x.shape()),
                 " is empty, expected at least one element");
  check_argument(std::in_range<std::int32_t>(view.extent), op, ": axis ", axis, " of ",
                 bracketed(x.shape()), " is too long, expected at most 2^31 - 1 elements");
  Shape shape = x.shape();
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(along));
  Best result{empty(shape), Ids::from_shape({shape.begin(), shape.end()})};
  const std::size_t rows = view.outer * view.inner;
  kernels::parallel_for_each(rows, view.extent, [&](std::size_t row) {
    const real* from = x.data() + row / view.inner * view.extent * view.inner + row % view.inner;
    std::size_t best = 0;
    for (std::size_t i = 1; i < view.extent && !std::isnan(from[best * view.inner]); ++i)
      if (better(from[i * view.inner], from[best * view.inner])) best = i;
    result.values.data()[row] = from[best * view.inner];
    result.indices.data()[row] = static_cast<std::int32_t>(best);
  });
  return result;
}

constexpr auto kLarger = [](real a, real b) { return !(a <= b); };
constexpr auto kSmaller = [](real a, real b) { return !(a >= b); };

Variable best_value(OpName op, const Variable& x, int axis, const auto& better) {
  Best best = best_along(op, x.read(), axis, better);
  const std::size_t along = resolve_axis(op, axis, x.shape().size());
  return record(
      op, {x}, std::move(best.values), [along, indices = std::move(best.indices)](Backward& node) {
        const AxisView view(node.input_shape(0), along);
        Tensor gradient = zeros(node.input_shape(0));
        for (std::size_t row = 0; row < indices.size(); ++row) {
          const auto index = static_cast<std::size_t>(indices.data()[row]);
          const std::size_t before = row / view.inner * view.extent + index;
          gradient.data()[before * view.inner + row % view.inner] = node.gradient().data()[row];
        }
        node.slot(0).take(std::move(gradient));
      });
}

// Calls f(k, offset) for each index k of `ids`. The offset, in an array of shape `shape`, is the
// position of ids[k] with its coordinate along one axis replaced by the id.
void for_each_gathered(const Ids& ids, const Shape& shape, std::size_t along, const auto& f) {
  for (std::size_t k = 0; k < ids.size(); ++k) {
    std::size_t offset = 0;
    std::size_t stride = 1;
    std::size_t rest = k;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      const std::size_t index = rest % ids.shape()[axis];
      rest /= ids.shape()[axis];
      offset += stride * (axis == along ? static_cast<std::size_t>(ids.data()[k]) : index);
      stride *= shape[axis];
    }
    f(k, offset);
  }
}

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

Variable max(const Variable& x, int axis) { return best_value("max", x, axis, kLarger); }
Variable min(const Variable& x, int axis) { return best_value("min", x, axis, kSmaller); }

Ids argmax(const Variable& x, int axis) {
  return best_along("argmax", x.value(), axis, kLarger).indices;
}
Ids argmin(const Variable& x, int axis) {
  return best_along("argmin", x.value(), axis, kSmaller).indices;
}

Variable gather(const Variable& x, int axis, const Ids& ids) {
  const Shape& shape = x.shape();
  const std::size_t along = resolve_axis("gather", axis, shape.size());
  bool fits = ids.dimension() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i)
    fits = i == along || ids.shape()[i] <= shape[i];
  check_argument(fits, "gather: ids have shape ", bracketed(ids.shape()), " for x of shape ",
                 bracketed(shape),
                 ", expected the rank of x, and no axis longer than in x except axis ", axis);
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const std::int32_t id = ids.data()[k];
    if (id < 0 || static_cast<std::size_t>(id) >= shape[along])
      check_argument(false, "gather: id ", id, " at ", bracketed(index_at(ids.shape(), k)),
                     " is out of range for axis ", axis, " of ", bracketed(shape));
  }

  Tensor value = empty({ids.shape().begin(), ids.shape().end()});
  for_each_gathered(ids, shape, along, [&](std::size_t k, std::size_t offset) {
    value.data()[k] = x.read().data()[offset];
  });
  return record("gather", {x}, std::move(value), [along, ids](Backward& node) {
    Tensor gradient = zeros(node.input_shape(0));
    const auto add_to = [&](auto* sums) {
      for_each_gathered(ids, node.input_shape(0), along, [&](std::size_t k, std::size_t offset) {
        sums[offset] += node.gradient().data()[k];
      });
    };
    if (ids.shape()[along] <= kernels::kRunningSum) {
      add_to(gradient.data());
    } else {  // a sum of many gradients would be inaccurate as a `real`
      using Wide = std::conditional_t<sizeof(real) == 4, double, long double>;
      std::vector<Wide, PoolAllocator<Wide>> sums(gradient.size(), 0);
      add_to(sums.data());
      std::ranges::transform(sums, gradient.data(),
                             [](Wide sum) { return static_cast<real>(sum); });
    }
    node.slot(0).take(std::move(gradient));
  });
}

Variable where(const Variable& condition, const Variable& a, const Variable& b) {
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

Variable masked_fill(const Variable& x, const Variable& mask, real value) {
  check_argument(kernels::broadcast_shape("masked_fill", x.shape(), mask.shape()) == x.shape(),
                 "masked_fill: mask has shape ", bracketed(mask.shape()),
                 ", expected a shape that broadcasts to ", bracketed(x.shape()));
  return where(mask, x.tape().constant(scalar(value)), x);
}

}  // namespace rowgrad
