#include <algorithm>

#include <rowgrad/core/kernels/layout.hpp>
#include <rowgrad/core/kernels/parallel.hpp>

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

void copy_blocks(const real* from, std::size_t from_step, real* to, std::size_t to_step,
                 std::size_t length, std::size_t blocks) {
  const std::size_t grain = row_grain(length);
  parallel_for(blocks, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t block = begin; block < end; ++block)
      std::copy(from + block * from_step, from + block * from_step + length, to + block * to_step);
  });
}

}  // namespace rowgrad::kernels
