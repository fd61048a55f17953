#pragma once

// Ranks that mpirun has started. In the target rowgrad::mpi, for programs that train in several
// processes.

#include <memory>
#include <string>

#include <rowgrad/core/base/process_group.hpp>

namespace rowgrad {

/// Whether this process was started by mpirun or another launcher: Open MPI's, MPICH's, Slurm's, or
/// one that uses PMI or PMIx.
bool started_by_mpi();

/// The rank that Open MPI, PMIx or PMI (MPICH, Slurm, Intel) has given this process, known before
/// MPI starts; null without.
const char* launched_rank();

/// Returns the number of processes that Open MPI or PMI has started; "" if the launcher does not
/// say it, such as one with PMIx alone.
std::string launched_size();

/// All processes of this run. To be called once; the result ends MPI when it is destroyed, unless
/// an exception is under way: then the process is to end with an error, by which MPI ends all
/// others, too. If a rank lets others wait for more than `timeout` seconds, these throw
/// std::runtime_error naming it. While MPI starts, which cannot be broken off, such a wait ends the
/// process with a message. Throws std::runtime_error if this MPI and the mpirun that was used do
/// not know each other: each process would take itself for the only one.
///
/// In a program without MPI, a process alone is one rank, also if a launcher started it and says
/// that it is the only one. Others that a launcher started throw std::runtime_error.
std::unique_ptr<ProcessGroup> mpi_process_group(double timeout = 50);

}  // namespace rowgrad
