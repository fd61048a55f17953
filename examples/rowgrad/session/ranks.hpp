#pragma once

// Programs that mpirun has started several times, to train one model together.

#include <iostream>
#include <map>
#include <memory>
#include <string>

#include <rowgrad/core/base/process_group.hpp>

namespace rowgrad {

/// The processes of this run; null if mpirun has not started it, or started it once. If a rank lets
/// others wait for `patience` seconds, that is an error. Each process gets its share of the
/// machine's threads. Throws std::runtime_error as mpi_process_group.
std::unique_ptr<ProcessGroup> program_ranks(double patience);

/// Throws std::runtime_error naming a rank and a fact, if facts are not the same on all ranks.
/// They have names and are one line each.
void check_same_on_all(ProcessGroup& ranks, const std::map<std::string, std::string>& facts);

/// While one exists, what is written to standard output goes nowhere.
struct SilentOutput {
  SilentOutput() { std::cout.setstate(std::ios::failbit); }
  ~SilentOutput() { std::cout.clear(); }
  SilentOutput(const SilentOutput&) = delete;
  SilentOutput& operator=(const SilentOutput&) = delete;
};

}  // namespace rowgrad
