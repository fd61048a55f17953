#pragma once

#include <cstdint>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

/// In training mode, zeroes each number with probability p and divides the others by 1 − p; in
/// evaluation mode, gives x back. It has a generator of its own, saved with the layer.
class Dropout : public Layer {
 public:
  /// Throws std::invalid_argument for p outside [0, 1]. Layers that are made without a seed draw
  /// masks of their own each, which depend on how many were made before: a program that makes the
  /// same layers in the same order repeats itself.
  explicit Dropout(double p, std::optional<std::uint64_t> seed = std::nullopt);

  Variable forward(const Variable& x);

 private:
  double p_;
  Random random_;
};

}  // namespace rowgrad
