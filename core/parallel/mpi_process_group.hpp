#pragma once

// Processes started by mpirun. In the target rowgrad::mpi, for programs that train in several
// processes.

#include <memory>
#include <string>

#include <rowgrad/core/base/process_group.hpp>

namespace rowgrad {

/// Returns true if mpirun or another launcher started this process: Open MPI, MPICH, Slurm, or any
/// that uses PMI or PMIx.
bool started_by_mpi();

/// Returns the rank that Open MPI, PMIx or PMI (MPICH, Slurm, Intel) has given this process, even
/// before MPI starts; null without a launcher.
const char* launched_rank();

/// Returns the number of processes that Open MPI or PMI has started; "" if the launcher does not
/// tell, such as one with PMIx alone.
std::string launched_size();

/// Starts MPI and returns all processes of this run. Call it once. Destroying the result ends MPI,
/// except during stack unwinding: then the process should exit with an error, so that MPI ends the
/// others.
///
/// If a rank keeps others waiting for more than `timeout` seconds, they throw std::runtime_error
/// naming it. If MPI takes that long to start, the process exits with a message. Throws
/// std::runtime_error if mpirun belongs to another MPI: each process would take itself for the only
/// one.
///
/// In a program without MPI, a single process is one rank, even if a launcher started it and says
/// that it is alone. Otherwise, a process of a launcher throws std::runtime_error.
std::unique_ptr<ProcessGroup> mpi_process_group(double timeout = 50);

}  // namespace rowgrad
