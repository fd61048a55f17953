#include "tests/test.hpp"
#include <rowgrad/core/kernels/softmax.hpp>

namespace rowgrad::kernels {
namespace {

TEST(SoftmaxRows, HaveTheSameBitsOnOneAndTwoThreads) {
  constexpr std::size_t kRows = 37;
  constexpr std::size_t kWidth = 1001;
  const Tensor x = irregular({kRows, kWidth}, 1, -20, 20);
  const Tensor dy = irregular({kRows, kWidth}, 2);
  std::vector<std::int32_t> targets;
  for (std::size_t i = 0; i < kRows; ++i) targets.push_back(static_cast<std::int32_t>(i * 27));
  const std::vector<real> weights(kRows, 1);
  auto run = [&](int threads) {
    const Threads scope(threads);
    std::vector<Tensor> results(5, empty({kRows, kWidth}));
    std::vector<ExpSum> sums(kRows);
    softmax_rows(x.data(), kRows, kWidth, results[0].data());
    softmax_rows_backward(results[0].data(), dy.data(), kRows, kWidth, results[1].data());
    log_softmax_rows(x.data(), kRows, kWidth, results[2].data());
    log_softmax_rows_backward(results[2].data(), dy.data(), kRows, kWidth, results[3].data());
    exp_sum_rows(x.data(), kRows, kWidth, false, sums.data());
    cross_entropy_rows_backward(x.data(), sums.data(), targets.data(), weights.data(), real{0.5},
                                kRows, kWidth, results[4].data());
    std::vector<double> log_sums;
    for (const ExpSum& row : sums) log_sums.push_back(row.above(0));
    return std::pair(results, log_sums);
  };
  EXPECT_EQ(run(2), run(1));
}

}  // namespace
}  // namespace rowgrad::kernels
