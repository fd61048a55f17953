#pragma once

// Functions of up to four arrays with NumPy broadcasting: shapes are aligned at their last axis,
// and an axis that is missing or has length 1 is repeated. Sums undo a broadcast, and add in an
// order that depends only on the shape, never on the number of threads. Summation is pairwise, so
// that sums of millions of values stay accurate.

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Returns the sum of `count` values.
real sum(const real* values, std::size_t count);

/// Sums x over the axes marked in `reduced` (one entry per axis), which keep length 1.
Tensor sum_along(const Tensor& x, const std::vector<bool>& reduced);

/// Returns the common shape. Throws std::invalid_argument, naming `op` and both shapes, if there is
/// none.
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b);
Shape broadcast_shape(std::string_view op, const Shape& first, const auto&... rest) {
  return broadcast_shape(op, first, broadcast_shape(op, rest...));
}

/// Sums x over the axes that a broadcast of `shape` to x's shape repeats.
Tensor sum_to(const Tensor& x, const Shape& shape);
Tensor sum_to(Tensor&& x, const Shape& shape);

/// The nested loops over up to four broadcast arrays, innermost first. Adjacent axes are joined
/// where the strides of all arrays allow it. A repeated axis has stride 0. Strides of the innermost
/// loop are 0 or 1.
struct BroadcastLoops {
  using PerArray = std::array<std::size_t, 4>;  // one value for each array

  std::vector<std::size_t> extents;  // number of iterations of each loop
  std::vector<PerArray> strides;     // strides of the arrays in each loop
  std::size_t arrays;                // number of arrays

  /// Returns the offset in each array at iteration `index`, counted over the loops from `loop`
  /// outward.
  PerArray offsets(std::size_t index, std::size_t loop) const {
    PerArray result{};
    for (; loop < extents.size(); index /= extents[loop++])
      for (std::size_t k = 0; k < arrays; ++k)
        result[k] += index % extents[loop] * strides[loop][k];
    return result;
  }
};
/// Returns the loops for a result of shape `result`. Requires: each of `shapes` broadcasts to
/// `result`.
BroadcastLoops broadcast_loops(const Shape& result, std::initializer_list<const Shape*> shapes);

inline namespace ROWGRAD_VECTORS {

/// Computes out[i] = f(x[i] …) for `count` elements on the calling thread. An array with stride 0
/// has one value, which is used for all i.
template <class F, std::size_t... K>
void map_repeated(std::size_t count, real* out, const F& f, std::array<const real*, sizeof...(K)> x,
                  const BroadcastLoops::PerArray& strides, std::index_sequence<K...>) {
  if (((strides[K] == 1) && ...)) return map_span(count, out, f, x[K]...);
  alignas(64) std::array<std::array<real, kLanes>, sizeof...(K)> repeated;
  for (std::size_t k = 0; k < x.size(); ++k)
    if (strides[k] == 0) {
      repeated[k].fill(*x[k]);
      x[k] = repeated[k].data();
    }
  const std::size_t whole = count / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes)
    f(Simd::load_unaligned(x[K] + i * strides[K])...).store_unaligned(out + i);
  if (const std::size_t rest = count - whole; rest > 0)
    store_partial(
        f((strides[K] == 0 ? Simd::load_aligned(x[K]) : load_partial(x[K] + whole, rest))...),
        out + whole, rest);
}

/// Computes result = f(x …), with each x broadcast to the shape of `result`. `result` may also be
/// an x of the same shape. For `f`, see elementwise.hpp.
template <class F, class... X>
void broadcast_into(Tensor& result, const F& f, const X&... x) {
  static_assert(sizeof...(X) <= 4);
  if (((x.shape() == result.shape()) && ...))
    return map_into(result.size(), result.data(), f, x.data()...);
  if (result.size() == 0) return;
  const BroadcastLoops loops = broadcast_loops(result.shape(), {&x.shape()...});
  const std::size_t inner = loops.extents.front();
  const auto map_row = [&]<std::size_t... K>(std::size_t row, std::index_sequence<K...> all) {
    const auto offsets = loops.offsets(row, 1);
    map_repeated(inner, result.data() + row * inner, f, {(x.data() + offsets[K])...},
                 loops.strides.front(), all);
  };
  parallel_for_each(result.size() / inner, inner,
                    [&](std::size_t row) { map_row(row, std::index_sequence_for<X...>()); });
}

/// Returns f(x …), broadcast to the common shape.
template <class F, class... X>
Tensor broadcast_map(std::string_view op, const F& f, const X&... x) {
  Tensor result = empty(broadcast_shape(op, x.shape()...));
  broadcast_into(result, f, x...);
  return result;
}

}  // namespace ROWGRAD_VECTORS

/// Returns the sums of columns over `rows` rows, [1, columns]. body(row, sums) adds a row to the
/// sums. Rows are summed in blocks of a fixed size, so the bits do not depend on the number of
/// threads. `work` is the cost of a row in simple operations.
Tensor sum_of_rows(std::size_t rows, std::size_t columns, std::size_t work, const auto& body) {
  constexpr std::size_t kBlock = 32;
  const std::size_t blocks = (rows + kBlock - 1) / kBlock;
  Tensor sums = zeros({blocks, columns});
  parallel_for_each(blocks, kBlock * work, [&, all = sums.data()](std::size_t block) {
    for (std::size_t i = block * kBlock; i < std::min(rows, (block + 1) * kBlock); ++i)
      body(i, all + block * columns);
  });
  return sum_along(sums, {true, false});
}

}  // namespace rowgrad::kernels
