#include <rowgrad/core/ops/normalize.hpp>
#include <rowgrad/layers/layer_norm.hpp>

namespace rowgrad {
namespace {

Tensor norm_weight(const char* layer, std::size_t width, double epsilon) {
  check_argument(width > 0, layer, ": width is 0");
  check_norm_epsilon(layer, epsilon);
  element_count({width}, layer);
  return full({width}, 1);
}

}  // namespace

LayerNorm::LayerNorm(std::size_t width, const LayerNormOptions& options)
    : weight(*this, "weight", norm_weight("LayerNorm", width, options.epsilon)),
      epsilon_(options.epsilon) {
  if (options.bias) bias.emplace(*this, "bias", zeros({width}));
}

Variable LayerNorm::forward(const Variable& x) {
  Tape& tape = x.tape();
  const auto shift = bias ? std::optional(tape.parameter(*bias)) : std::nullopt;
  return layer_norm(x, tape.parameter(weight), shift, epsilon_);
}

RmsNorm::RmsNorm(std::size_t width, double epsilon)
    : weight(*this, "weight", norm_weight("RmsNorm", width, epsilon)), epsilon_(epsilon) {}

Variable RmsNorm::forward(const Variable& x) {
  return rms_norm(x, x.tape().parameter(weight), epsilon_);
}

}  // namespace rowgrad
