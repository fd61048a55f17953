#include <algorithm>
#include <functional>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/layout.hpp>

namespace rowgrad::kernels {

Tensor permute(const Tensor& x, const std::vector<std::size_t>& axes) {
  const std::size_t rank = axes.size();
  std::vector<std::size_t> x_strides(rank, 1);
  for (std::size_t axis = rank; axis-- > 1;)
    x_strides[axis - 1] = x_strides[axis] * x.shape()[axis];
  Shape shape(rank);
  std::vector<std::size_t> strides(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    shape[axis] = x.shape()[axes[axis]];
    strides[axis] = x_strides[axes[axis]];
  }
  Tensor result = empty(shape);
  if (result.size() == 0) return result;
  const std::size_t inner = rank == 0 ? 1 : shape[rank - 1];
  const std::size_t step = rank == 0 ? 1 : strides[rank - 1];
  const std::size_t grain = row_grain(inner);
  parallel_for(result.size() / inner, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      std::size_t rest = row;
      std::size_t offset = 0;
      for (std::size_t axis = rank; axis-- > 0;) {
        if (axis == rank - 1) continue;
        offset += rest % shape[axis] * strides[axis];
        rest /= shape[axis];
      }
      const real* from = x.data() + offset;
      real* to = result.data() + row * inner;
      if (step == 1) {
        std::copy(from, from + inner, to);
      } else {
        for (std::size_t i = 0; i < inner; ++i) to[i] = from[i * step];
      }
    }
  });
  return result;
}

namespace {

// Calls f(to, from) for the two ends of each block, in parallel.
void for_blocks(const real* from, std::size_t from_step, real* to, std::size_t to_step,
                std::size_t length, std::size_t blocks, const auto& f) {
  parallel_for(blocks, row_grain(length), [&](std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block < end; ++block)
      f(to + block * to_step, from + block * from_step);
  });
}

}  // namespace

void copy_blocks(const real* from, std::size_t from_step, real* to, std::size_t to_step,
                 std::size_t length, std::size_t blocks) {
  for_blocks(from, from_step, to, to_step, length, blocks,
             [length](real* t, const real* f) { std::copy_n(f, length, t); });
}

void add_blocks(const real* from, std::size_t from_step, real* to, std::size_t to_step,
                std::size_t length, std::size_t blocks) {
  for_blocks(from, from_step, to, to_step, length, blocks,
             [length](real* t, const real* f) { map_span(length, t, std::plus<>(), t, f); });
}

}  // namespace rowgrad::kernels
