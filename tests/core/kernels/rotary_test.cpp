#include "tests/test.hpp"
#include <rowgrad/core/kernels/attention.hpp>

namespace rowgrad::kernels {
namespace {

TEST(RotateRows, HaveTheSameBitsInPlace) {
  constexpr std::size_t kRows = 300, kLength = 100, kHeads = 4;
  const Threads two(2);
  for (const bool interleaved : {false, true})
    for (const std::size_t head_width : {2, 10, 64, 70}) {
      const std::size_t pairs = head_width / 2 - head_width / 8;
      const Tensor cosines = irregular({kLength, pairs}, 2), sines = irregular({kLength, pairs}, 3);
      Tensor x = irregular({kRows, kHeads * head_width}, 1), y = x;
      for (Tensor* to : {&y, &x})
        rotate_rows({pairs, interleaved}, x.data(), kRows, kLength, kHeads, head_width,
                    cosines.data(), sines.data(), 1, to->data());
      EXPECT_EQ(x, y) << head_width;
    }
}

}  // namespace
}  // namespace rowgrad::kernels
