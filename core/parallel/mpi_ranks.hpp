#pragma once

// Ranks that mpirun has started. In the target rowgrad::mpi, for programs that are built where MPI
// is installed.

#include <memory>

#include <rowgrad/core/parallel/ranks.hpp>

namespace rowgrad {

/// Whether mpirun or a like of it has started this process, as Open MPI, MPICH and Slurm tell it.
bool started_by_mpi();

/// All processes of this run. To be called once; the result ends MPI when it is destroyed, unless
/// an exception is under way: then the process is to end with an error, by which MPI ends all
/// others, too. If a rank lets others wait for more than `patience` seconds, these throw
/// std::runtime_error naming it.
std::unique_ptr<Ranks> mpi_ranks(double patience = 50);

}  // namespace rowgrad
