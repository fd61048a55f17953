#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/workload.hpp"
#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/optim/optimizer.hpp>

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

double median(std::vector<double> numbers);

/// W5 with so many rows for each head of its memory.
inline Workload w5(std::size_t ngram_rows) {
  return {"W5", "gpt", "adamw", 8192, 128, 12, 64, 4, 4, 0, ngram_rows};
}

GptOptions gpt_options(const Workload& workload);

/// Throws std::invalid_argument for an unknown name.
std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                          const std::vector<Parameter*>& parameters);

/// So many that the rows of large ones are not in the cache when they are used again.
constexpr std::size_t kBatches = 16;

std::vector<Ids> random_batches(const Workload& workload, std::uint64_t seed);

/// Measures the workload's steps in this process: median_us, the median of each part of a step,
/// steps, tokens_per_second, and the BLAS that was used. Throws std::invalid_argument for an
/// unknown model or optimizer.
nlohmann::json measure(const Workload& workload, const Pace& pace);

/// The rates of the machine with the threads that set_threads() has set: bytes per second, read
/// and written, of y += a · x over arrays far larger than any cache; operations per second of
/// OpenBLAS in a large square product, which is more than it reaches for the shapes of a head.
struct MachineRates {
  double bytes_per_second = 0;
  double operations_per_second = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MachineRates, bytes_per_second, operations_per_second)

MachineRates measure_rates(const Pace& pace);

/// A lower bound for the time of the workload's step at these rates, that of its matrix products
/// and of the bytes that it must move, and its parts.
nlohmann::json floor_of(const Workload& workload, const MachineRates& rates);

}  // namespace rowgrad::bench
