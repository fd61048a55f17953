#pragma once

// The process group of programs that mpirun starts in several processes (target rowgrad::mpi).

#include <memory>
#include <string>

#include <rowgrad/core/base/process_group.hpp>

namespace rowgrad {

/// Returns true if a launcher started this process: mpirun of Open MPI or MPICH, Slurm, or another
/// launcher that uses PMI or PMIx.
bool started_by_mpi();

/// Returns the rank that Open MPI, PMIx or PMI (MPICH, Slurm, Intel) has given this process, even
/// before MPI starts; null without a launcher.
const char* launched_rank();

/// Returns the number of processes that Open MPI or PMI has started; "" with other launchers,
/// such as PMIx alone, or without one.
std::string launched_size();

/// Starts MPI and returns the group of all processes of this run. Call it once. Destroying the
/// group ends MPI, except during stack unwinding. Then, the process should exit with an error,
/// so that MPI ends the other processes.
///
/// If a rank keeps others waiting for more than `timeout` seconds, the others throw a
/// std::runtime_error that names it. If MPI takes longer to start, the process exits with a
/// message. Throws std::runtime_error if mpirun belongs to another MPI than this program.
///
/// In a program that was built without MPI, returns a group of one process. Throws
/// std::runtime_error if a launcher started this process and launched_size() is not "1".
std::unique_ptr<ProcessGroup> mpi_process_group(double timeout = 50);

}  // namespace rowgrad
