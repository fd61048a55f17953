#pragma once

#include <cstddef>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// Each position beside its predecessors: x [..., length, width] → [..., length, steps · width],
/// the oldest first, zeros before the start. What follows sees the last `steps` tokens at once
/// (Bengio et al. 2003). With one step, forward gives x back. No parameters.
class LookBack : public Layer {
 public:
  /// Throws std::invalid_argument for no steps.
  explicit LookBack(std::size_t steps);

  /// Throws std::invalid_argument for a rank below 2, and for a result that no memory could hold.
  Variable forward(const Variable& x);

 private:
  std::size_t steps_;
};

}  // namespace rowgrad
