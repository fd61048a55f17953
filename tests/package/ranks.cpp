// Adds up a gradient over the ranks that mpirun has started; alone without it.

#include <cstdlib>
#include <iostream>

#include <rowgrad/core/parallel/gradient_exchange.hpp>
#include <rowgrad/core/parallel/mpi_ranks.hpp>

int main() {
  using namespace rowgrad;

  const auto ranks = mpi_ranks();
  GradientExchange exchange(*ranks, ranks->size(), {{3}});
  const Gradients sums = exchange.sum({{Gradient(full({3}, 1))}});
  const auto size = static_cast<real>(ranks->size());
  const bool right = sums[0].dense() == full({3}, size);
  if (ranks->rank() == 0)
    std::cout << "the sum over " << size << " ranks is " << (right ? "right" : "wrong") << '\n';
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
