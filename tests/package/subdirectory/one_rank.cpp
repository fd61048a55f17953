// A program without MPI: a single process. Fails if it is started by mpirun.

#include <cstdlib>
#include <iostream>

#include <rowgrad/core/parallel/mpi_process_group.hpp>
#include <rowgrad/version.hpp>

#if ROWGRAD_VERSION_MAJOR == 0 && ROWGRAD_VERSION_MINOR < 1
#error "rowgrad is older than 0.1, expected 0.1 or newer"
#endif

int main() {
  try {
    std::cout << "rowgrad " << ROWGRAD_VERSION << ", " << rowgrad::mpi_process_group()->size()
              << " process\n";
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cout << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
