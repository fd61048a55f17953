#pragma once

#include <cstddef>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// Joins each position to its predecessors: x [..., length, width] → [..., length, steps · width],
/// the oldest first, with zeros before the start. The next layer sees the last `steps` tokens at
/// once (Bengio et al. 2003). With one step, forward returns x. No parameters.
class LookBack : public Layer {
 public:
  /// Throws std::invalid_argument for 0 steps.
  explicit LookBack(std::size_t steps);

  /// Throws std::invalid_argument for a rank below 2 and for a result that memory could never hold.
  Variable forward(const Variable& x);

 private:
  std::size_t steps_;
};

}  // namespace rowgrad
