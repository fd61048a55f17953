#pragma once

#include <cstddef>
#include <functional>

#include <nlohmann/json.hpp>

#include "tests/bench/workload.hpp"

namespace rowgrad::bench {

/// How often to run what is measured.
struct Pace {
  std::size_t warm_up = 3;  // runs before the first that is measured
  std::size_t repeats = 0;  // measured runs; 0: as many as `seconds` allows
  double seconds = 2;       // how long to measure; at least three runs in any case
};

struct Timing {
  double median_seconds = 0;
  std::size_t runs = 0;
};

Timing time_runs(const std::function<void()>& run, const Pace& pace);

/// Measures the workload's steps in this process: median_us, the median of each part of a step,
/// steps, tokens_per_second, and the BLAS that was used. Throws std::invalid_argument for an
/// unknown model or optimizer.
nlohmann::json measure(const Workload& workload, const Pace& pace);

}  // namespace rowgrad::bench
