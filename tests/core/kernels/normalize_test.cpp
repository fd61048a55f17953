#include "tests/test.hpp"
#include <rowgrad/core/kernels/normalize.hpp>

namespace rowgrad::kernels {
namespace {

constexpr RowNorm kNorms[] = {RowNorm::kLayer, RowNorm::kRootMeanSquare};

struct Results {
  Tensor y, dx, dweight, dbias;
  bool operator==(const Results&) const = default;
};

// Forward and backward of the rows [first, last).
Results run(RowNorm norm, const Tensor& x, const Tensor& dy, std::size_t first, std::size_t last) {
  const std::size_t width = x.shape()[1];
  const std::size_t rows = last - first;
  const Tensor weight = irregular({width}, 3, 0.5, 1.5);
  const Tensor bias = irregular({width}, 4);
  Results results{empty({rows, width}), empty({rows, width}), zeros({width}), zeros({width})};
  std::vector<RowScaling> scalings(rows);
  const real* x_rows = x.data() + first * width;
  const real* dy_rows = dy.data() + first * width;
  const bool layer = norm == RowNorm::kLayer;
  normalize_rows(norm, x_rows, rows, width, weight.data(), layer ? bias.data() : nullptr, 1e-5,
                 results.y.data(), scalings.data());
  normalize_rows_backward(norm, x_rows, dy_rows, rows, width, weight.data(), scalings.data(),
                          {.x = results.dx.data(),
                           .weight = results.dweight.data(),
                           .bias = layer ? results.dbias.data() : nullptr});
  return results;
}

TEST(NormalizeRows, HaveTheSameBitsOnOneAndTwoThreads) {
  for (const RowNorm norm : kNorms)
    for (const Shape& shape :
         {Shape{131, 768}, Shape{1037, 61}, Shape{5, 20001}, Shape{40000, 1}}) {
      const Tensor x = irregular(shape, 1, -20, 20);
      const Tensor dy = irregular(shape, 2);
      const auto on = [&](int threads) {
        const Threads scope(threads);
        return run(norm, x, dy, 0, shape[0]);
      };
      EXPECT_TRUE(on(2) == on(1)) << bracketed(shape);
    }
}

TEST(NormalizeRows, HaveTheSameBitsWhereverTheyStand) {
  for (const RowNorm norm : kNorms)
    for (const std::size_t width : {1, 7, 16, 100, 1500}) {
      const Tensor x = irregular({9, width}, 1, -20, 20);
      const Tensor dy = irregular({9, width}, 2);
      const Results all = run(norm, x, dy, 0, 9);
      for (std::size_t row = 0; row < 9; ++row) {
        const Results alone = run(norm, x, dy, row, row + 1);
        for (std::size_t j = 0; j < width; ++j) {
          ASSERT_EQ(alone.y(0, j), all.y(row, j)) << row << ", " << j << " of " << width;
          ASSERT_EQ(alone.dx(0, j), all.dx(row, j)) << row << ", " << j << " of " << width;
        }
      }
    }
}

TEST(NormalizeRows, MayWriteTheGradientWhereTheUpstreamOneStandsOrAddIt) {
  for (const RowNorm norm : kNorms) {
    const Tensor x = irregular({67, 37}, 1);
    const Tensor weight = irregular({37}, 3, 0.5, 1.5);
    const Tensor bias = zeros({37});
    Tensor y = empty(x.shape());
    std::vector<RowScaling> scalings(67);
    normalize_rows(norm, x.data(), 67, 37, weight.data(), bias.data(), 1e-5, y.data(),
                   scalings.data());
    const Tensor dy = irregular(x.shape(), 2);
    Tensor apart = empty(x.shape());
    Tensor in_place = dy;
    normalize_rows_backward(norm, x.data(), dy.data(), 67, 37, weight.data(), scalings.data(),
                            {.x = apart.data()});
    normalize_rows_backward(norm, x.data(), in_place.data(), 67, 37, weight.data(), scalings.data(),
                            {.x = in_place.data()});
    EXPECT_EQ(in_place, apart);
    const Tensor before = irregular(x.shape(), 4);
    Tensor sum = before;
    normalize_rows_backward(norm, x.data(), dy.data(), 67, 37, weight.data(), scalings.data(),
                            {.x = sum.data(), .add_x = true});
    EXPECT_EQ(sum, Tensor(before + apart));
  }
}

}  // namespace
}  // namespace rowgrad::kernels
