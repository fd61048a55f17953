#pragma once

// The least that a workload's step can take on this machine: its matrix products at the rate of a
// large one, and the bytes that it must move at the rate of memory.

#include <nlohmann/json.hpp>

#include "tests/bench/measure.hpp"
#include "tests/bench/workload.hpp"

namespace rowgrad::bench {

/// Bytes that a step reads and writes, whoever computes it: each number once for every use, with
/// each value and each merged row gradient written once. Numbers that can stay in the cache between
/// two uses (logits, which can be had a block at a time; a row that is looked up twice) count once
/// or not at all, and what matrix products read and write is part of their time. Where all of it
/// fits in the cache, as in the smallest workloads, a step may beat its floor.
double bytes_to_move(const Workload& workload);

/// 2 · rows · inner · columns for each of the head's three products; 0 without a head.
double product_operations(const Workload& workload);

/// What the machine can do, with as many threads as blas::set_threads was given: bytes a second,
/// read and written, of y += a · x over arrays far larger than any cache; operations a second of
/// OpenBLAS in a large square product, which is more than it reaches on a head's shapes.
struct MachineRates {
  double bytes_per_second;
  double operations_per_second;
};
MachineRates measure_rates(const Pace& pace);

/// The workload's floor on such a machine, with what it is made of.
nlohmann::json floor_of(const Workload& workload, const MachineRates& rates);

}  // namespace rowgrad::bench
