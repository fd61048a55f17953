#pragma once

// Functions of two arrays whose shapes are broadcast against each other as in NumPy: shapes are
// aligned at their last axis, and an axis that is missing or has length 1 is repeated. And sums,
// which undo it; values are added in an order that depends only on the shape, never on the threads,
// and by halves, so that a sum of millions is as accurate as one of few.

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// The sum of `count` values.
real sum(const real* values, std::size_t count);

/// Sums x over the axes marked in `reduced` (one entry per axis), which keep length 1.
Tensor sum_along(const Tensor& x, const std::vector<bool>& reduced);

/// y [outer, extent, inner]: running sums of x along its middle axis, from its first entry to its
/// last, or from the last to the first if `reverse`; added up in double.
void cumulative_sums(const real* x, std::size_t outer, std::size_t extent, std::size_t inner,
                     bool reverse, real* y);

/// The common shape. Throws std::invalid_argument naming `op` and both shapes if there is none.
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b);

/// Repeats x to `shape`, with which it must be compatible.
Tensor expand(const Tensor& x, const Shape& shape);

/// Sums x over the axes along which expand() would repeat `shape`: the transpose of expand.
Tensor sum_to(const Tensor& x, const Shape& shape);
Tensor sum_to(Tensor&& x, const Shape& shape);

/// The nested loops of a broadcast, outermost first; adjacent axes are joined where their strides
/// allow. A stride of 0 repeats. The strides of the innermost loop are 0 or 1.
struct BroadcastLoops {
  std::vector<std::size_t> extents;                 // for each loop, how many rounds it makes
  std::vector<std::array<std::size_t, 2>> strides;  // for each loop, the stride of a and that of b

  /// Where iteration `index` of the outer `axes` loops begins in a and b.
  std::array<std::size_t, 2> offsets(std::size_t index, std::size_t axes) const {
    std::array<std::size_t, 2> result{};
    while (axes-- > 0) {
      for (std::size_t side = 0; side < 2; ++side)
        result[side] += index % extents[axes] * strides[axes][side];
      index /= extents[axes];
    }
    return result;
  }
};
/// The loops of a result from a and b, whose shapes must be compatible.
BroadcastLoops broadcast_loops(const Shape& result, const Shape& a, const Shape& b);

}  // namespace rowgrad::kernels

namespace rowgrad::kernels {
inline namespace ROWGRAD_VECTORS {

/// result = f(a, b). `result` has the common shape of a and b and may be one of them.
void broadcast_into(Tensor& result, const auto& f, const Tensor& a, const Tensor& b) {
  if (result.size() == 0) return;
  const BroadcastLoops loops = broadcast_loops(result.shape(), a.shape(), b.shape());
  const std::size_t inner = loops.extents.back();
  const std::size_t a_stride = loops.strides.back()[0];
  const std::size_t b_stride = loops.strides.back()[1];
  parallel_for(result.size() / inner, row_grain(inner), [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const auto [a_offset, b_offset] = loops.offsets(row, loops.extents.size() - 1);
      const real* from_a = a.data() + a_offset;
      const real* from_b = b.data() + b_offset;
      real* to = result.data() + row * inner;
      if (a_stride == 1 && b_stride == 1) {
        map_span(inner, to, f, from_a, from_b);
      } else if (b_stride == 0) {
        const Simd repeated(*from_b);
        map_span(
            inner, to, [&](const Simd& x) { return f(x, repeated); }, from_a);
      } else {
        const Simd repeated(*from_a);
        map_span(
            inner, to, [&](const Simd& x) { return f(repeated, x); }, from_b);
      }
    }
  });
}

/// f(a, b), broadcast to the common shape; `f` as in elementwise.hpp.
Tensor broadcast_map(std::string_view op, const auto& f, const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape()) return map(f, a, b);
  Tensor result = empty(broadcast_shape(op, a.shape(), b.shape()));
  broadcast_into(result, f, a, b);
  return result;
}

}  // namespace ROWGRAD_VECTORS
/// Σ body over `rows` rows, as [columns]: body(row, sums) adds what a row gives to `columns` sums.
/// Rows are summed in blocks of a fixed size, so that bits do not depend on the number of threads.
/// `work` is that of a row, in simple operations.
Tensor sum_of_rows(std::size_t rows, std::size_t columns, std::size_t work, const auto& body) {
  constexpr std::size_t kBlock = 32;
  const std::size_t blocks = (rows + kBlock - 1) / kBlock;
  Tensor sums = zeros({blocks, columns});
  parallel_for(blocks, row_grain(kBlock * work),
               [&, all = sums.data()](std::size_t first, std::size_t last) {
                 for (std::size_t i = first * kBlock; i < std::min(rows, last * kBlock); ++i)
                   body(i, all + i / kBlock * columns);
               });
  return sum_along(sums, {true, false});
}

}  // namespace rowgrad::kernels
