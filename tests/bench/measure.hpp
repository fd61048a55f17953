#pragma once

#include <cstddef>
#include <functional>

#include <nlohmann/json.hpp>

#include "tests/bench/workload.hpp"

namespace rowgrad::bench {

/// How often to run what is measured.
struct Pace {
  std::size_t warm_up = 3;  // runs before the first that counts
  std::size_t repeats = 0;  // runs that count; 0: as `seconds` says
  double seconds = 2;       // for how long to go on; at least three runs in any case
};

struct Timing {
  double median_seconds = 0;
  std::size_t runs = 0;
};

Timing time_runs(const std::function<void()>& run, const Pace& pace);

/// The workload's steps, in this process: median_us, that of each part of a step, steps,
/// tokens_per_second, and what it ran on.
nlohmann::json measure(const Workload& workload, const Pace& pace);

}  // namespace rowgrad::bench
