#include <cmath>

#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/layers/linear.hpp>

namespace rowgrad {
namespace {

Tensor start(const Shape& shape, std::size_t inputs, Random& random) {
  check_argument(inputs > 0 && shape[0] > 0, "Linear: inputs ", inputs, " and outputs ", shape[0],
                 " must be above 0");
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  return random.uniform(shape, -bound, bound);
}

}  // namespace

Linear::Linear(std::size_t inputs, std::size_t outputs, Random& random,
               const LinearOptions& options)
    : weight_("weight", start({outputs, inputs}, inputs, random)) {
  register_parameter("weight", weight_);
  if (options.bias)
    register_parameter("bias", bias_.emplace("bias", start({outputs}, inputs, random)));
}

Variable Linear::forward(const Variable& x) {
  Tape& tape = x.tape();
  if (!bias_) return linear(x, tape.parameter(weight_));
  return linear(x, tape.parameter(weight_), tape.parameter(*bias_));
}

Parameter& Linear::bias() {
  check_state(bias_.has_value(), "Linear::bias: the layer has no bias");
  return *bias_;
}

}  // namespace rowgrad
