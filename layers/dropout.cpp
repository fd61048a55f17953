#include <rowgrad/core/ops/dropout.hpp>
#include <rowgrad/layers/dropout.hpp>

namespace rowgrad {

Dropout::Dropout(double p) : p_(p) {
  check_argument(p >= 0 && p <= 1, "Dropout: p is ", p, ", expected 0 to 1");
}

Variable Dropout::forward(const Variable& x) { return training() ? dropout(x, p_) : x; }

}  // namespace rowgrad
