#include <unistd.h>

#include "tests/support/process.hpp"
#include "tests/test.hpp"

namespace rowgrad::blas {
namespace {

constexpr std::size_t kSide = 96;

Tensor product(std::size_t rows) {
  const Tensor a = irregular({rows, kSide}, 1);
  const Tensor b = irregular({kSide, kSide}, 2);
  Tensor result = empty({rows, kSide});
  gemm({a.data(), rows, kSide}, {b.data(), kSide, kSide}, {result.data(), rows, kSide});
  return result;
}

// A test that starts a new process, in which OpenBLAS has chosen a kernel without AVX, as if it did
// not know the CPU.
class OpenBlasAtStart : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cpu_level() < VectorLevel::kAvx2) GTEST_SKIP() << "this CPU has no AVX2";
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    const char* const value = std::getenv(kVariable);
    if (value != nullptr && value == std::string("Prescott"))
      return;  // in the new process, which has computed nothing
    if (!select_kernel(info().kernel)) GTEST_SKIP() << "this OpenBLAS contains a single kernel";
    kernel_.emplace(kVariable, "Prescott");
  }

  // Calls start(), prints describe() to standard error and exits, with status 0 if the kernel fits
  // the CPU. start() may start threads.
  [[noreturn]] static void describe_after(const std::function<void()>& start) {
    unsetenv(kVariable);  // as if the user had not chosen a kernel
    start();
    std::cerr << describe();
    std::_Exit(kernel_level(info().kernel) == cpu_level() ? 0 : 1);
  }

 private:
  static constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  std::optional<EnvironmentVariable> kernel_;
};

TEST_F(OpenBlasAtStart, SelectsAKernelForThisCpu) {
  EXPECT_EXIT(describe_after([] {}), ::testing::ExitedWithCode(0), " \\(selected by rowgrad\\), ");
}

TEST_F(OpenBlasAtStart, SelectsAKernelDespiteItsOwnThreads) {
  const auto start = [] {
    set_threads(3);
    EXPECT_EQ(worker_count(), 2U);
  };
  EXPECT_EXIT(describe_after(start), ::testing::ExitedWithCode(0), " \\(selected by rowgrad\\), ");
}

TEST_F(OpenBlasAtStart, SuggestsAKernelIfOtherThreadsExist) {
  const auto start = [] { std::thread([] { pause(); }).detach(); };
  EXPECT_EXIT(describe_after(start), ::testing::ExitedWithCode(1),
              "kernel Prescott \\(OPENBLAS_CORETYPE=(SkylakeX|Haswell) would be faster\\), ");
}

TEST(OpenBlas, UpgradesAKernelOlderThanTheCpu) {
  if (cpu_level() < VectorLevel::kAvx2) GTEST_SKIP() << "this CPU has no AVX2";
  const std::string kernel = info().kernel;
  for (const std::size_t rows : {std::size_t{1}, kSide}) {
    const Tensor before = product(rows);
    if (!select_kernel("Prescott"))
      GTEST_SKIP() << "this OpenBLAS contains a single kernel, " << kernel;
    EXPECT_EQ(info().kernel, "Prescott");
    EXPECT_EQ(kernel_level(info().kernel), VectorLevel::kBeforeAvx);
    const Tensor with_old_kernel = product(rows);

    EXPECT_TRUE(upgrade_kernel());
    EXPECT_GE(kernel_level(info().kernel), VectorLevel::kAvx2) << describe();
    EXPECT_FALSE(upgrade_kernel());  // already the best kernel
    const Tensor with_new_kernel = product(rows);

    // Without BLAS, the loops of xtensor-blas would give the same bits with any kernel.
    EXPECT_NE(with_new_kernel, with_old_kernel) << rows << " rows were not multiplied by OpenBLAS";
    // Each kernel sums 96 products of values below 1 in its own order: see the bound in
    // gemm_test.cpp.
    const double bound = 2 * kSide * (kSide + 1) * kEpsilon;
    expect_near(with_old_kernel, before, bound, "Prescott");
    expect_near(with_new_kernel, before, bound, info().kernel);
    EXPECT_TRUE(select_kernel(kernel));  // restores the kernel for other tests
    EXPECT_EQ(product(rows), before);
  }
}

TEST(OpenBlas, RestoresTheEnvironment) {
  const std::string kernel = info().kernel;
  EXPECT_FALSE(select_kernel("Abacus"));
  EXPECT_EQ(info().kernel, kernel);
  if (!select_kernel(kernel)) GTEST_SKIP() << "this OpenBLAS contains a single kernel";
  constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  const EnvironmentVariable none(kVariable, std::nullopt);
  EXPECT_TRUE(select_kernel(kernel));
  EXPECT_EQ(std::getenv(kVariable), nullptr);
  const EnvironmentVariable other(kVariable, "Nehalem");
  EXPECT_TRUE(select_kernel(kernel));
  EXPECT_STREQ(std::getenv(kVariable), "Nehalem");
}

TEST(OpenBlas, KnowsTheVectorLevelsOfKernels) {
  for (const auto& [kernel, level] :
       std::map<std::string, VectorLevel>{{"Prescott", VectorLevel::kBeforeAvx},
                                          {"Nehalem", VectorLevel::kBeforeAvx},
                                          {"Sandybridge", VectorLevel::kAvx},
                                          {"Excavator", VectorLevel::kAvx},
                                          {"Haswell", VectorLevel::kAvx2},
                                          {"Zen", VectorLevel::kAvx2},
                                          {"SkylakeX", VectorLevel::kAvx512},
                                          {"Cooperlake", VectorLevel::kAvx512},
                                          {"SapphireRapids", VectorLevel::kAvx512},
                                          {"SAPPHIRERAPIDS", VectorLevel::kAvx512},
                                          {"unheard of", VectorLevel::kBeforeAvx}})
    EXPECT_EQ(kernel_level(kernel), level) << kernel;
}

TEST(OpenBlas, DescribesItselfInOneLine) {
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    const Info now = info();
    EXPECT_EQ(now.threads, threads);
    const std::string kernel = concat(
        now.kernel, now.reselected ? " (selected by rowgrad)" : "",
        now.better.empty() ? "" : concat(" (OPENBLAS_CORETYPE=", now.better, " would be faster)"));
    EXPECT_EQ(describe(), concat("level ", now.level, ", OpenBLAS kernel ", kernel,
                                 threads == 1 ? ", 1 thread" : ", 2 threads"));
  }
}

}  // namespace
}  // namespace rowgrad::blas
