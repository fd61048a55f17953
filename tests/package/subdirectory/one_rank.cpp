// A program without MPI: a single process. Fails if it is started by mpirun.

#include <cstdlib>
#include <iostream>

#include <rowgrad/core/parallel/mpi_process_group.hpp>
#include <rowgrad/version.hpp>

#if ROWGRAD_VERSION_MAJOR == 0 && ROWGRAD_VERSION_MINOR < 1
#error "this rowgrad is too old"
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
