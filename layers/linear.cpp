#include <cmath>

#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/layers/linear.hpp>

namespace rowgrad {
namespace {

Tensor start(const Shape& shape, std::size_t inputs, Random& random) {
  check_argument(inputs > 0 && shape[0] > 0, "Linear: inputs ", inputs, " and outputs ", shape[0],
                 " must be above 0");
  element_count(shape, "Linear");
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  return random.uniform(shape, -bound, bound);
}

void check_weight(const Parameter& weight) {
  check_argument(weight.shape().size() == 2 && weight.size() > 0, "Linear: ", weight.name(),
                 " has shape ", bracketed(weight.shape()),
                 ", expected [outputs, inputs], both above 0");
}

}  // namespace

Linear::Linear(std::size_t inputs, std::size_t outputs, Random& random,
               const LinearOptions& options)
    : own_weight_(std::in_place, *this, "weight", start({outputs, inputs}, inputs, random)),
      weight(*own_weight_) {
  start_bias(random, options);
}

Linear::Linear(Tensor weight_start, std::optional<Tensor> bias_start)
    : own_weight_(std::in_place, *this, "weight", std::move(weight_start)), weight(*own_weight_) {
  check_weight(weight);
  if (!bias_start) return;
  const std::size_t outputs = weight.shape()[0];
  check_argument(bias_start->shape() == Shape({outputs}), "Linear: the bias has shape ",
                 bracketed(bias_start->shape()), ", expected [", outputs, "]");
  bias.emplace(*this, "bias", *std::move(bias_start));
}

Linear::Linear(Parameter& borrowed, Random& random, const LinearOptions& options)
    : weight(borrowed) {
  check_weight(weight);
  share("weight", weight);
  start_bias(random, options);
}

void Linear::start_bias(Random& random, const LinearOptions& options) {
  const Shape& shape = weight.shape();
  if (options.bias) bias.emplace(*this, "bias", start({shape[0]}, shape[1], random));
}

std::optional<Variable> Linear::bias_on(Tape& tape) {
  if (!bias) return std::nullopt;
  return tape.parameter(*bias);
}

Variable Linear::forward(const Variable& x) {
  Tape& tape = x.tape();
  return linear(x, tape.parameter(weight), bias_on(tape));
}

Variable Linear::cross_entropy(const Variable& x, const Ids& targets,
                               const CrossEntropyOptions& options) {
  Tape& tape = x.tape();
  return linear_cross_entropy(x, tape.parameter(weight), bias_on(tape), targets, options);
}

}  // namespace rowgrad
