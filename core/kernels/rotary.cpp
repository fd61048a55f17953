#include <algorithm>
#include <vector>

#include <rowgrad/core/kernels/parallel.hpp>
#include <rowgrad/core/kernels/rotary.hpp>

namespace rowgrad::kernels {
namespace {

// One head, with arrays that do not overlap, as __restrict says: then the compiler uses vectors.
void rotate_halves(std::size_t pairs, const real* __restrict x, const real* __restrict cosine,
                   const real* __restrict sine, real sign, real* __restrict y) {
  for (std::size_t i = 0; i < pairs; ++i) {
    const real a = x[i];
    const real b = x[i + pairs];
    const real s = sign * sine[i];
    y[i] = a * cosine[i] - b * s;
    y[i + pairs] = a * s + b * cosine[i];
  }
}

void rotate_interleaved(std::size_t pairs, const real* __restrict x, const real* __restrict cosine,
                        const real* __restrict sine, real sign, real* __restrict y) {
  for (std::size_t i = 0; i < pairs; ++i) {
    const real a = x[2 * i];
    const real b = x[2 * i + 1];
    const real s = sign * sine[i];
    y[2 * i] = a * cosine[i] - b * s;
    y[2 * i + 1] = a * s + b * cosine[i];
  }
}

}  // namespace

void rotate_rows(const RotaryColumns& columns, const real* x, std::size_t rows, std::size_t length,
                 std::size_t heads, std::size_t head_width, const real* cosines, const real* sines,
                 real sign, real* y) {
  const std::size_t pairs = columns.pairs;
  const std::size_t width = heads * head_width;
  const auto rotate = columns.interleaved ? rotate_interleaved : rotate_halves;
  parallel_for(rows, row_grain(width), [&](std::size_t begin, std::size_t end) {
    std::vector<real> copy(x == y ? width : 0);  // of a row that is overwritten
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t angles = row % length * pairs;
      const real* from = x + row * width;
      real* to = y + row * width;
      if (x == y) {
        std::copy_n(from, width, copy.data());
        from = copy.data();
      }
      for (std::size_t first = 0; first < width; first += head_width) {
        rotate(pairs, from + first, cosines + angles, sines + angles, sign, to + first);
        std::copy(from + first + 2 * pairs, from + first + head_width, to + first + 2 * pairs);
      }
    }
  });
}

}  // namespace rowgrad::kernels
