#pragma once

// A lower bound for the time of a workload's step on this machine: its matrix products at the rate
// of a large one, and the bytes that it must move at the rate of memory.

#include <nlohmann/json.hpp>

#include "tests/bench/measure.hpp"
#include "tests/bench/workload.hpp"

namespace rowgrad::bench {

/// The rates of the machine with the threads that set_threads() has set: bytes per second, read
/// and written, of y += a · x over arrays far larger than any cache; operations per second of
/// OpenBLAS in a large square product, which is more than it reaches for the shapes of a head.
struct MachineRates {
  double bytes_per_second = 0;
  double operations_per_second = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MachineRates, bytes_per_second, operations_per_second)

MachineRates measure_rates(const Pace& pace);

/// The workload's floor at these rates, and its parts.
nlohmann::json floor_of(const Workload& workload, const MachineRates& rates);

}  // namespace rowgrad::bench
