#pragma once

#include <string>
#include <vector>

#include "tests/bench/measure.hpp"
#include <rowgrad/examples/support/options.hpp>

namespace rowgrad::bench {

struct Options {
  std::vector<std::string> workloads = {};  // by name; empty for all
  std::string sweep = {};                   // instead of the workloads
  Pace pace = {};
  std::uint64_t threads = 1;
  bool floor = false;
  bool list = false;
  std::string json = {};  // file to write; "" for none
};

/// Options with the default number of threads: thread_count(), which OMP_NUM_THREADS limits.
Options default_options();

OptionTable option_table_of(Options& options);

/// The workloads that the options choose. Throws std::invalid_argument or std::runtime_error for
/// what checks of single options cannot see: names, files, and threads that the machine lacks.
std::vector<Workload> checked_workloads(const Options& options);

}  // namespace rowgrad::bench
