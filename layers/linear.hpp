#pragma once

#include <optional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

struct LinearOptions {
  bool bias = true;
};

/// x [..., inputs] → x · weightᵀ + bias [..., outputs]. Parameters: weight [outputs, inputs] and
/// bias [outputs], both from uniform(−1/sqrt(inputs), 1/sqrt(inputs)).
class Linear : public Layer {
 public:
  /// Throws std::invalid_argument for inputs or outputs of 0.
  Linear(std::size_t inputs, std::size_t outputs, Random& random,
         const LinearOptions& options = {});

  Variable forward(const Variable& x);

  Parameter& weight() { return weight_; }
  const Parameter& weight() const { return weight_; }

  /// Throws std::logic_error if the layer has none.
  Parameter& bias();

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
};

}  // namespace rowgrad
