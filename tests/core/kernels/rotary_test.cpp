#include "tests/test.hpp"
#include <rowgrad/core/kernels/attention.hpp>

namespace rowgrad::kernels {
namespace {

TEST(RotateRows, GivesTheNumbersOfOnnxRuntimeForAPartOfTheColumns) {
  const Tensor x = tensor({1, 6}, {1.0076, -.7529, -.2250, -.4327, -1.5071, -.4586});
  const Tensor cosines = tensor({2}, {1, .5403});
  const Tensor sines = tensor({2}, {0, .8415});
  Tensor y = empty({1, 6});
  rotate_rows({.pairs = 2, .interleaved = false}, x.data(), 1, 1, 1, 6, cosines.data(),
              sines.data(), 1, y.data());
  expect_near(y, tensor({1, 6}, {1.0076, -.0427, -.2250, -.8673, -1.5071, -.4586}), 0.5e-4 * 3);
}

TEST(RotateRows, HaveTheSameBitsInPlaceAndOnOneAndTwoThreads) {
  constexpr std::size_t kRows = 300, kLength = 100, kHeads = 4;
  for (const bool interleaved : {false, true})
    for (const std::size_t head_width : {2, 10, 64, 70}) {
      const std::size_t pairs = head_width / 2 - head_width / 8;
      const Tensor x = irregular({kRows, kHeads * head_width}, 1);
      const Tensor cosines = irregular({kLength, pairs}, 2);
      const Tensor sines = irregular({kLength, pairs}, 3);
      for (const real sign : {1, -1}) {
        const auto rotate = [&](int threads, const Tensor& from, Tensor& to) {
          const Threads scope(threads);
          rotate_rows({pairs, interleaved}, from.data(), kRows, kLength, kHeads, head_width,
                      cosines.data(), sines.data(), sign, to.data());
        };
        Tensor on_one = empty(x.shape());
        Tensor on_two = empty(x.shape());
        Tensor in_place = x;
        rotate(1, x, on_one);
        rotate(2, x, on_two);
        rotate(2, in_place, in_place);
        EXPECT_EQ(on_two, on_one) << head_width;
        EXPECT_EQ(in_place, on_one) << head_width;
      }
    }
}

}  // namespace
}  // namespace rowgrad::kernels
