// Sums a gradient over the ranks that mpirun started, or over a single process. With several ranks,
// then sends to a rank that does not exist, which must throw an error that names the rank and MPI's
// reason.

#include <cstdlib>
#include <iostream>
#include <string>

#include <rowgrad/core/parallel/gradient_exchange.hpp>
#include <rowgrad/core/parallel/mpi_process_group.hpp>

int main() {
  using namespace rowgrad;

  const auto ranks = mpi_process_group();
  GradientExchange exchange(*ranks, ranks->size(), {{3}});
  const Gradients sums = exchange.sum({{Gradient(full({3}, 1))}});
  const auto size = static_cast<real>(ranks->size());
  const bool right = sums[0].dense() == full({3}, size);
  if (ranks->rank() == 0)
    std::cout << "the sum over " << size << " ranks is " << (right ? "right" : "wrong") << '\n';
  if (ranks->size() == 1) return right ? EXIT_SUCCESS : EXIT_FAILURE;

  const std::byte byte{};
  const ProcessGroup::Send send{ranks->size(), {&byte, 1}};
  std::string error;
  try {
    ranks->exchange({&send, 1}, {});
  } catch (const std::runtime_error& caught) {
    error = caught.what();
  }
  const std::string expected = "exchange with rank " + std::to_string(ranks->size()) + ": ";
  const bool named =
      error.starts_with(expected) && error.find("rank", expected.size()) != error.npos;
  if (!named)
    std::cout << "the error does not name the other rank and MPI's reason: '" << error << "'\n";
  return right && named ? EXIT_SUCCESS : EXIT_FAILURE;
}
