#include <algorithm>

#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/reduce.hpp>

namespace rowgrad::kernels {
namespace {

// The extent of `shape` along an axis of a result of rank `rank`; 1 if `shape` lacks that axis.
std::size_t aligned_extent(const Shape& shape, std::size_t axis, std::size_t rank) {
  const std::size_t missing = rank - shape.size();
  return axis < missing ? 1 : shape[axis - missing];
}

}  // namespace

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::size_t of_a = aligned_extent(a, axis, rank);
    const std::size_t of_b = aligned_extent(b, axis, rank);
    check_argument(of_a == of_b || of_a == 1 || of_b == 1, op, ": shapes ", bracketed(a), " and ",
                   bracketed(b), " cannot be broadcast together: ", of_a, " against ", of_b,
                   " on axis ", static_cast<std::ptrdiff_t>(axis - rank));
    result[axis] = of_a == 1 ? of_b : of_a;
  }
  return result;
}

BroadcastLoops broadcast_loops(const Shape& result, const Shape& a, const Shape& b) {
  const std::size_t rank = result.size();
  BroadcastLoops loops;
  std::array<std::size_t, 2> next{1, 1};  // strides of the current axis if it is not repeated
  for (std::size_t axis = rank; axis-- > 0;) {
    const std::size_t extent = result[axis];
    const std::array<std::size_t, 2> extents{aligned_extent(a, axis, rank),
                                             aligned_extent(b, axis, rank)};
    if (extent == 1) continue;
    const std::array<std::size_t, 2> strides{extents[0] == 1 ? 0 : next[0],
                                             extents[1] == 1 ? 0 : next[1]};
    next = {next[0] * extents[0], next[1] * extents[1]};
    bool joins = !loops.extents.empty();
    for (std::size_t side = 0; joins && side < 2; ++side) {
      const std::size_t inner = loops.strides.back()[side];
      joins = strides[side] == inner * loops.extents.back();
    }
    if (joins) {
      loops.extents.back() *= extent;
    } else {
      loops.extents.push_back(extent);
      loops.strides.push_back(strides);
    }
  }
  if (loops.extents.empty()) {
    loops.extents.push_back(1);
    loops.strides.push_back({0, 0});
  }
  std::reverse(loops.extents.begin(), loops.extents.end());
  std::reverse(loops.strides.begin(), loops.strides.end());
  return loops;
}

Tensor expand(const Tensor& x, const Shape& shape) {
  Tensor result = empty(shape);
  broadcast_into(
      result, [](const Simd& value, const Simd&) { return value; }, x, result);
  return result;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return map([](const Simd& v) { return v; }, x);  // a copy, in parallel
  std::vector<bool> repeated(x.dimension());
  for (std::size_t axis = 0; axis < repeated.size(); ++axis)
    repeated[axis] = aligned_extent(shape, axis, repeated.size()) != x.shape()[axis];
  std::fill_n(repeated.begin(), x.dimension() - shape.size(), true);
  return reshaped(sum_along(x, repeated), shape);
}

Tensor sum_to(Tensor&& x, const Shape& shape) {
  if (x.shape() == shape) return std::move(x);
  return sum_to(std::as_const(x), shape);
}

}  // namespace rowgrad::kernels
