// Trains in a user's OpenMP region. An OpenBLAS built on OpenMP uses the threads of the region.

#include <atomic>
#include <unistd.h>

#include <cblas.h>

#include "tests/test.hpp"

extern "C" {
// GCC's implementation of `#pragma omp parallel`. Null if OpenBLAS was not built on GCC's OpenMP.
[[gnu::weak]] void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
}

namespace {

// Trains a layer and returns the loss after two steps. The products, forward and backward, are
// large enough to be computed by OpenBLAS.
double loss_after_two_steps() {
  Random random(1);
  Linear layer(700, 900, random);
  AdamW optimizer(layer.parameters(), {.learning_rate = 1e-3});
  const Tensor x = irregular({300, 700});
  double loss = 0;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    Tape tape;
    const Variable y = layer.forward(tape.constant(x));
    const Variable mean_square = mean(y * y);
    loss = mean_square.item();
    tape.backward(mean_square);
    optimizer.step();
  }
  return loss;
}

struct Region {
  std::atomic<int> begun = 0;
  std::vector<double> losses = std::vector<double>(4);
};

TEST(OpenMpRegion, TrainsOnEachThread) {
  if (GOMP_parallel == nullptr) GTEST_SKIP() << "OpenBLAS was not built on GCC's OpenMP";
  const double expected = loss_after_two_steps();
  const int before = openblas_get_num_threads();
  alarm(100);  // ends the test if it hangs
  for (const int blas_threads : {0, 2, 1}) {
    if (blas_threads > 0) openblas_set_num_threads(blas_threads);
    for (const unsigned threads : {1, 4}) {
      Region region;
      const auto train = [](void* data) {
        auto& all = *static_cast<Region*>(data);
        all.losses[static_cast<std::size_t>(all.begun++)] = loss_after_two_steps();
      };
      GOMP_parallel(train, &region, threads, 0);
      ASSERT_EQ(region.begun, static_cast<int>(threads));
      for (unsigned i = 0; i < threads; ++i)
        EXPECT_NEAR(region.losses[i], expected, 1e-4 * expected) << blas_threads;
    }
  }
  alarm(0);
  openblas_set_num_threads(before);
}

}  // namespace
