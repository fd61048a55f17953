#pragma once

// A lower bound for the time of a workload's step on this machine: its matrix products at the rate
// of a large one, and the bytes that it must move at the rate of memory.

#include <nlohmann/json.hpp>

#include "tests/bench/measure.hpp"
#include "tests/bench/workload.hpp"

namespace rowgrad::bench {

/// The bytes that any implementation of a step reads and writes: each number once for every use,
/// with each value and each merged row gradient written once. Numbers that can stay in the cache
/// between two uses (logits, which can be computed a block at a time; a row that is looked up
/// twice) count once or not at all, and what matrix products read and write is part of their time.
/// If everything fits in the cache, as in the smallest workloads, a step may beat its floor.
double bytes_to_move(const Workload& workload);

/// 2 · rows · inner · columns for each of the three products of a linear layer, and the seven of
/// causal attention, one of which is made again in the backward pass; half of each is above the
/// diagonal. 0 without a head.
double product_operations(const Workload& workload);

/// The rates of the machine with the threads that set_threads() has set: bytes per second, read
/// and written, of y += a · x over arrays far larger than any cache; operations per second of
/// OpenBLAS in a large square product, which is more than it reaches for the shapes of a head.
struct MachineRates {
  double bytes_per_second;
  double operations_per_second;
};
MachineRates measure_rates(const Pace& pace);

/// The workload's floor at these rates, and its parts.
nlohmann::json floor_of(const Workload& workload, const MachineRates& rates);

}  // namespace rowgrad::bench
