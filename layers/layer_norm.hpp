#pragma once

#include <cstddef>
#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

struct LayerNormOptions {
  double epsilon = 1e-5;  // added to the variance
  bool bias = true;
};

/// Gives each row mean 0 and variance 1, then scales and shifts it: see layer_norm(). x [...,
/// width] → the same shape. Parameters: weight [width], from ones, and bias [width], from zeros.
class LayerNorm : public Layer {
 public:
  /// Throws std::invalid_argument for a width of 0 or more than memory could hold, and for an
  /// epsilon that is negative or not finite.
  explicit LayerNorm(std::size_t width, const LayerNormOptions& options = {});

  Variable forward(const Variable& x);

  Parameter weight;
  std::optional<Parameter> bias;

 private:
  double epsilon_;
};

/// Divides each row by its root mean square, then scales it: see rms_norm(). x [..., width] → the
/// same shape. Parameter: weight [width], from ones.
class RmsNorm : public Layer {
 public:
  /// Throws the same.
  explicit RmsNorm(std::size_t width, double epsilon = 1e-5);

  Variable forward(const Variable& x);

  Parameter weight;

 private:
  double epsilon_;
};

}  // namespace rowgrad
