#include <cmath>

#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/shape.hpp>
#include <rowgrad/layers/linear.hpp>

namespace rowgrad {
namespace {

Tensor start(const Shape& shape, std::size_t inputs, Random& random) {
  check_argument(inputs > 0 && shape[0] > 0, "Linear: inputs is ", inputs, " and outputs is ",
                 shape[0], ", expected both above 0");
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

// Returns alpha / rank · A · x.
Variable Linear::lora_down(const Variable& x) {
  return linear(x, x.tape().parameter(*lora_a)) * lora_scale->value().data()[0];
}

Variable Linear::forward(const Variable& x) {
  Tape& tape = x.tape();
  const Variable y = linear(x, tape.parameter(weight), bias_on(tape));
  return has_lora() ? y + linear(lora_down(x), tape.parameter(*lora_b)) : y;
}

// Appends lora_down(x) to the columns of x, and B to the columns of the weight.
Variable Linear::cross_entropy(const Variable& x, const Ids& targets,
                               const CrossEntropyOptions& options) {
  Tape& tape = x.tape();
  const Variable w = tape.parameter(weight);
  if (!has_lora()) return linear_cross_entropy(x, w, bias_on(tape), targets, options);
  return linear_cross_entropy(concatenate({x, lora_down(x)}, -1),
                              concatenate({w, tape.parameter(*lora_b)}, -1), bias_on(tape), targets,
                              options);
}

void Linear::check_lora(const LoraOptions& options) const {
  check_state(own_weight_.has_value(), "Linear::add_lora: ", weight.name(),
              " is borrowed from another layer, expected a weight that this layer owns");
  check_state(!has_lora(), "Linear::add_lora: ", weight.name(), " already has an adapter");
  check_argument(options.rank > 0, "Linear::add_lora: rank is 0, expected at least 1");
  element_count({options.rank, weight.shape()[0] + weight.shape()[1]}, "Linear::add_lora");
  check_argument(
      std::isfinite(static_cast<real>(options.alpha / static_cast<double>(options.rank))),
      "Linear::add_lora: alpha is ", options.alpha, ", expected a finite number");
}

void Linear::add_lora(Random& random, const LoraOptions& options) {
  check_lora(options);
  const std::size_t outputs = weight.shape()[0];
  const std::size_t inputs = weight.shape()[1];
  Tensor a = start({options.rank, inputs}, inputs, random);
  Tensor b = zeros({outputs, options.rank});
  const double scale = options.alpha / static_cast<double>(options.rank);
  lora_a.emplace(*this, "lora_a", std::move(a));
  lora_b.emplace(*this, "lora_b", std::move(b));
  lora_scale.emplace(*this, "lora_scale", full({1}, static_cast<real>(scale)));
  weight.set_trainable(false);
  if (bias) bias->set_trainable(false);
}

void Linear::merge_lora() {
  if (!has_lora()) return;
  Tape tape(Tape::kInference);
  const Variable product = matmul(tape.parameter(*lora_b), tape.parameter(*lora_a));
  weight.assign((tape.parameter(weight) + product * lora_scale->value().data()[0]).value());
  lora_a.reset();
  lora_b.reset();
  lora_scale.reset();
}

}  // namespace rowgrad
