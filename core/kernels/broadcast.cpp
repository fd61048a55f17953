#include <algorithm>
#include <array>
#include <functional>

#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad::kernels {
namespace {

constexpr std::size_t kHalfRows = 256;        // the smallest number of rows in a half
constexpr std::size_t kColumns = 4 * kLanes;  // columns whose running sums stay in registers
// Blocks of twice the width read memory faster, if a matrix has enough columns for all threads.
constexpr std::size_t kWideColumns = 2 * kColumns;
constexpr std::size_t kWideMatrix = 64 * kWideColumns;

// Sums N vectors over `rows` rows, `stride` apart, in registers. If rows are far apart, the CPU
// does not prefetch the next columns by itself, so this function does.
template <std::size_t N>
void sum_vectors(const real* x, std::size_t rows, std::size_t stride, real* out) {
  const bool far_apart = stride >= kWideMatrix;
  Simd sums[N];
// Unrolled, to keep the sums in registers.
#pragma GCC unroll 8
  for (std::size_t k = 0; k < N; ++k) sums[k] = Simd(real{0});
  for (std::size_t row = 0; row < rows; ++row) {
    const real* const from = x + row * stride;
    if (far_apart) prefetch_row(from + N * kLanes, N * kLanes);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < N; ++k) sums[k] += Simd::load_unaligned(from + k * kLanes);
  }
#pragma GCC unroll 8
  for (std::size_t k = 0; k < N; ++k) sums[k].store_unaligned(out + k * kLanes);
}

// Sums `rows` rows of `width` ≤ kWideColumns values.
void sum_rows(const real* x, std::size_t rows, std::size_t stride, std::size_t width, real* out) {
  if (rows > kRunningSum) {
    const std::size_t half = rows / 2;
    std::array<real, kWideColumns> second;
    sum_rows(x, half, stride, width, out);
    sum_rows(x + half * stride, rows - half, stride, width, second.data());
    map_span(width, out, std::plus<>(), out, second.data());
    return;
  }
  constexpr std::size_t kWide = kWideColumns / kLanes;
  constexpr std::size_t kNarrow = kColumns / kLanes;
  std::size_t i = 0;
  for (; i + kWideColumns <= width; i += kWideColumns)
    sum_vectors<kWide>(x + i, rows, stride, out + i);
  for (; i + kColumns <= width; i += kColumns) sum_vectors<kNarrow>(x + i, rows, stride, out + i);
  if (i == width) return;
  std::fill(out + i, out + width, real{0});
  for (std::size_t row = 0; row < rows; ++row)
    map_span(width - i, out + i, std::plus<>(), out + i, x + row * stride + i);
}

// Returns the sum of `count` values, taken as rows of kColumns values.
real sum_values(const real* values, std::size_t count) {
  const std::size_t rows = count / kColumns;
  std::array<real, kColumns> columns;
  sum_rows(values, rows, kColumns, kColumns, columns.data());
  const auto sums = [&](std::size_t k) { return Simd::load_unaligned(&columns[k * kLanes]); };
  double total = lanes::sum((sums(0) + sums(1)) + (sums(2) + sums(3)));
  for (std::size_t i = rows * kColumns; i < count; ++i) total += values[i];
  return static_cast<real>(total);
}

// Sums x [outer, extent, inner] over its middle axis, to `out` [outer, inner].
void sum_middle(const real* x, std::size_t outer, std::size_t extent, std::size_t inner,
                real* out) {
  if (inner == 1) {
    parallel_for_each(outer, extent,
                      [&](std::size_t row) { out[row] = sum(x + row * extent, extent); });
    return;
  }
  if (extent == 0) {  // x may be null
    std::fill_n(out, outer * inner, real{0});
    return;
  }
  // Sums the halves separately, so that each of two threads usually reads what it wrote itself.
  const std::size_t halves = extent < 2 * kHalfRows ? 1 : 2;
  const std::size_t columns = inner < kWideMatrix ? kColumns : kWideColumns;
  const std::size_t column_blocks = (inner + columns - 1) / columns;
  Tensor second = empty({halves > 1 ? outer : 0, inner});
  parallel_for_each(halves * outer * column_blocks, columns * extent / halves,
                    [&](std::size_t block) {
                      const std::size_t half = block / (outer * column_blocks);
                      const std::size_t row = block / column_blocks % outer;
                      const std::size_t first = block % column_blocks * columns;
                      const std::size_t from = extent * half / halves;
                      const std::size_t rows = extent * (half + 1) / halves - from;
                      sum_rows(x + (row * extent + from) * inner + first, rows, inner,
                               std::min(columns, inner - first),
                               (half == 0 ? out : second.data()) + row * inner + first);
                    });
  map_into(second.size(), out, std::plus<>(), out, second.data());
}

}  // namespace

real sum(const real* values, std::size_t count) {
  if (count < 2 * kGrainElements) return sum_values(values, count);
  std::vector<real> parts((count + kGrainElements - 1) / kGrainElements);
  parallel_for_each(parts.size(), kGrainElements, [&](std::size_t part) {
    const std::size_t first = part * kGrainElements;
    parts[part] = sum_values(values + first, std::min(kGrainElements, count - first));
  });
  return sum(parts.data(), parts.size());
}

Tensor sum_along(const Tensor& x, const std::vector<bool>& reduced) {
  // Adjacent marked axes are summed as one axis, from the last group to the first.
  Tensor result;
  const Tensor* from = &x;
  for (std::size_t end = reduced.size(); end > 0;) {
    if (!reduced[end - 1]) {
      --end;
      continue;
    }
    std::size_t begin = end;
    while (begin > 0 && reduced[begin - 1]) --begin;
    Shape shape = from->shape();
    std::size_t outer = 1, extent = 1, inner = 1;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      (axis < begin ? outer : axis < end ? extent : inner) *= shape[axis];
      if (begin <= axis && axis < end) shape[axis] = 1;
    }
    Tensor summed = empty(shape);
    sum_middle(from->data(), outer, extent, inner, summed.data());
    result = std::move(summed);
    from = &result;
    end = begin;
  }
  return from == &x ? x : result;
}

namespace {

// Returns the extent of `shape` along an axis of a result with `rank` axes, or 1 if `shape` lacks
// that axis.
std::size_t aligned_extent(const Shape& shape, std::size_t axis, std::size_t rank) {
  const std::size_t missing = rank - shape.size();
  return axis < missing ? 1 : shape[axis - missing];
}

}  // namespace

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b) {
  if (a == b) return a;
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

BroadcastLoops broadcast_loops(const Shape& result, std::initializer_list<const Shape*> shapes) {
  const std::size_t rank = result.size();
  BroadcastLoops loops{.extents = {}, .strides = {}, .arrays = shapes.size()};
  loops.extents.reserve(rank + 1);
  loops.strides.reserve(rank + 1);
  BroadcastLoops::PerArray next{1, 1, 1, 1};  // strides of the current axis if it is not repeated
  for (std::size_t axis = rank; axis-- > 0;) {
    const std::size_t extent = result[axis];
    if (extent == 1) continue;
    BroadcastLoops::PerArray strides{};
    bool joins = !loops.extents.empty();
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      const std::size_t own = aligned_extent(*shapes.begin()[k], axis, rank);
      if (own != 1) strides[k] = next[k];
      next[k] *= own;
      joins = joins && strides[k] == loops.strides.back()[k] * loops.extents.back();
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
    loops.strides.push_back({});
  }
  return loops;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return map([](Simd v) { return v; }, x);  // a copy, in parallel
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
