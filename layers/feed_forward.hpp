#pragma once

#include <rowgrad/layers/dropout.hpp>
#include <rowgrad/layers/linear.hpp>

namespace rowgrad {

/// GELU (Hendrycks & Gimpel 2016), exactly or as GPT-2 approximates it.
enum class Gelu { kTanh, kErf };

struct FeedForwardOptions {
  Gelu gelu = Gelu::kTanh;
  bool bias = true;
  double dropout = 0;  // of the result
};

/// The two linear layers of a transformer block: x [..., width] → 4 · width → GELU → [..., width].
class FeedForward : public Layer {
 public:
  /// Throws std::invalid_argument for a width of 0 and a dropout outside [0, 1].
  FeedForward(std::size_t width, Random& random, const FeedForwardOptions& options = {});

  Variable forward(const Variable& x);

 private:
  Gelu gelu_;

 public:
  Part<Linear> up;
  Part<Linear> down;
  Part<Dropout> dropout;
};

}  // namespace rowgrad
