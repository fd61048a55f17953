#include "tests/bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "tests/bench/training_step.hpp"
#include <rowgrad/core/blas/gemm.hpp>

namespace rowgrad::bench {
namespace {

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const std::size_t half = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[half] : (numbers[half - 1] + numbers[half]) / 2;
}

}  // namespace

Timing time_runs(const std::function<void()>& run, const Pace& pace) {
  constexpr std::size_t kFewest = 3;
  using Clock = std::chrono::steady_clock;
  for (std::size_t i = 0; i < pace.warm_up; ++i) run();
  std::vector<double> seconds;
  double total = 0;
  while (pace.repeats > 0 ? seconds.size() < pace.repeats
                          : seconds.size() < kFewest || total < pace.seconds) {
    const auto start = Clock::now();
    run();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    total += seconds.back();
  }
  const std::size_t runs = seconds.size();
  return {median(std::move(seconds)), runs};
}

nlohmann::json measure(const Workload& workload, const Pace& pace) {
  set_threads(workload.threads);
  const auto step = make_training_step(workload);
  StepParts parts;
  const Timing timing = time_runs([&] { step->run(parts); }, pace);
  const blas::Info info = blas::info();
  return {{"median_us", timing.median_seconds * 1e6},
          {"forward_us", median(std::move(parts.forward)) * 1e6},
          {"backward_us", median(std::move(parts.backward)) * 1e6},
          {"update_us", median(std::move(parts.update)) * 1e6},
          {"steps", timing.runs},
          {"tokens_per_second", static_cast<double>(workload.tokens()) / timing.median_seconds},
          {"blas", blas::describe()},
          {"kernel", info.kernel},
          {"kernel_reselected", info.reselected}};
}

}  // namespace rowgrad::bench
