#include <cmath>

#include <rowgrad/core/ops/normalize.hpp>
#include <rowgrad/layers/layer_norm.hpp>

namespace rowgrad {
namespace {

double checked(const char* layer, std::size_t width, double epsilon) {
  check_argument(width > 0, layer, ": width is 0");
  check_argument(std::isfinite(epsilon) && epsilon >= 0, layer, ": epsilon is ", epsilon,
                 ", expected a finite number not below 0");
  return epsilon;
}

}  // namespace

LayerNorm::LayerNorm(std::size_t width, const LayerNormOptions& options)
    : weight(*this, "weight", full({width}, 1)),
      epsilon_(checked("LayerNorm", width, options.epsilon)) {
  if (options.bias) bias.emplace(*this, "bias", zeros({width}));
}

Variable LayerNorm::forward(const Variable& x) {
  Tape& tape = x.tape();
  const auto shift = bias ? std::optional(tape.parameter(*bias)) : std::nullopt;
  return layer_norm(x, tape.parameter(weight), shift, epsilon_);
}

RmsNorm::RmsNorm(std::size_t width, double epsilon)
    : weight(*this, "weight", full({width}, 1)), epsilon_(checked("RmsNorm", width, epsilon)) {}

Variable RmsNorm::forward(const Variable& x) {
  return rms_norm(x, x.tape().parameter(weight), epsilon_);
}

}  // namespace rowgrad
