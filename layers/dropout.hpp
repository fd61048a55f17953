#pragma once

#include <rowgrad/core/ops/dropout.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// In training mode, zeroes each value with probability p and divides the others by 1 − p; in
/// evaluation mode, returns x. Draws from the tape's random numbers.
class Dropout : public Layer {
 public:
  /// Throws std::invalid_argument for p outside [0, 1].
  explicit Dropout(double p) : p_(p) {
    check_argument(p >= 0 && p <= 1, "Dropout: p is ", p, ", expected 0 to 1");
  }

  /// Throws std::logic_error in training mode for a tape without random numbers.
  Variable forward(const Variable& x) { return training() ? dropout(x, p_) : x; }

 private:
  double p_;
};

}  // namespace rowgrad
