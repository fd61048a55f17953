#pragma once

// Processes that mpirun has started, to train one model together.

#include <map>
#include <memory>
#include <string>

#include <rowgrad/core/base/process_group.hpp>

namespace rowgrad {

/// Returns the processes of this run; null for a process alone. It is an error if a rank lets
/// others wait for `timeout` seconds. Each process gets its share of the machine's threads. Throws
/// std::runtime_error like mpi_process_group.
std::unique_ptr<ProcessGroup> program_ranks(double timeout);

/// Throws std::runtime_error, which names a rank and a fact, if facts differ between ranks. Each
/// fact has a name and is one line.
void check_same_on_all(ProcessGroup& ranks, const std::map<std::string, std::string>& facts);

}  // namespace rowgrad
