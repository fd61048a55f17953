#pragma once

// Processes started by mpirun that train one model together.

#include <map>
#include <memory>
#include <string>

#include <rowgrad/core/base/process_group.hpp>

namespace rowgrad {

/// Returns the process group of this run, or null for a single process. A rank that waits
/// `timeout` seconds for another one fails. Each process gets its share of the machine's threads.
/// Throws std::runtime_error like mpi_process_group.
std::unique_ptr<ProcessGroup> program_ranks(double timeout);

/// Throws std::runtime_error, which names a rank and a fact, if facts differ between ranks.
/// `facts` maps names to one-line values.
void check_same_on_all(ProcessGroup& ranks, const std::map<std::string, std::string>& facts);

}  // namespace rowgrad
