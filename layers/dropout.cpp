#include <rowgrad/core/ops/dropout.hpp>
#include <rowgrad/layers/dropout.hpp>

namespace rowgrad {

Dropout::Dropout(double p, std::uint64_t seed) : p_(p), random_(seed) {
  check_argument(p >= 0 && p <= 1, "Dropout: p is ", p, ", expected 0 to 1");
  register_random("random", random_);
}

Variable Dropout::forward(const Variable& x) { return training() ? dropout(x, p_, random_) : x; }

}  // namespace rowgrad
