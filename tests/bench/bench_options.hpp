#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tests/bench/measure.hpp"

namespace rowgrad::bench {

struct Options {
  std::vector<std::string> workloads = {};  // by name; none: all of them
  std::string sweep = {};                   // instead of the workloads
  Pace pace = {};
  int threads = 1;
  bool floor = false;
  bool list = false;
  std::string json = {};  // file to write; "": none
};

/// Options with the default number of threads: what OpenMP would use, which OMP_NUM_THREADS limits.
Options default_options();

void add_options(CLI::App& app, Options& options);

/// The workloads that the options ask for. Throws std::invalid_argument or std::runtime_error for
/// what single options' checks cannot see: names, files, and threads that the machine has not.
std::vector<Workload> checked_workloads(const Options& options);

}  // namespace rowgrad::bench
