#include <cmath>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/normalize.hpp>
#include <rowgrad/core/ops/normalize.hpp>

namespace rowgrad {
namespace {

using kernels::RowNorm;

Variable normalize(OpName op, RowNorm norm, const Variable& x, const Variable& weight,
                   const std::optional<Variable>& bias, double epsilon) {
  const std::string_view name = op;
  const Shape& shape = x.shape();
  check_argument(!shape.empty() && shape.back() > 0, name, ": x has shape ", bracketed(shape),
                 ", expected [..., width] with a width above 0");
  const std::size_t width = shape.back();
  const auto check_width = [&](const char* what, const Shape& got) {
    check_argument(got == Shape{width}, name, ": ", what, " has shape ", bracketed(got),
                   ", expected [", width, "]");
  };
  check_width("weight", weight.shape());
  if (bias) check_width("bias", bias->shape());
  check_argument(std::isfinite(epsilon) && epsilon >= 0, name, ": epsilon is ", epsilon,
                 ", expected a finite number not below 0");

  std::vector<Variable> inputs{x, weight};
  if (bias) inputs.push_back(*bias);
  const std::size_t rows = x.value().size() / width;
  std::vector<kernels::RowScaling> scalings(rows);
  Tensor value = empty(shape);
  kernels::normalize_rows(norm, x.value().data(), rows, width, weight.value().data(),
                          bias ? bias->value().data() : nullptr, epsilon, value.data(),
                          scalings.data());
  return record(op, inputs, std::move(value),
                [norm, rows, width, scalings = std::move(scalings),
                 with_bias = bias.has_value()](Backward& node) {
                  const auto wanted = [&](std::size_t i) {
                    return node.needs(i) ? empty(node.input_shape(i)) : Tensor();
                  };
                  Tensor dweight = wanted(1);
                  Tensor dbias = with_bias ? wanted(2) : Tensor();
                  const bool needs_x = node.needs(0);
                  const bool needs_weight = node.needs(1);
                  const bool needs_bias = with_bias && node.needs(2);
                  Tensor dy = node.take_gradient();
                  kernels::normalize_rows_backward(
                      norm, node.input(0).data(), dy.data(), rows, width, node.input(1).data(),
                      scalings.data(),
                      {.x = needs_x ? dy.data() : nullptr,
                       .weight = needs_weight ? dweight.data() : nullptr,
                       .bias = needs_bias ? dbias.data() : nullptr});
                  if (needs_x) node.give(0, std::move(dy));
                  if (needs_weight) node.give(1, std::move(dweight));
                  if (needs_bias) node.give(2, std::move(dbias));
                });
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const std::optional<Variable>& bias,
                    double epsilon) {
  return normalize("layer_norm", RowNorm::kLayer, x, weight, bias, epsilon);
}

Variable rms_norm(const Variable& x, const Variable& weight, double epsilon) {
  return normalize("rms_norm", RowNorm::kRootMeanSquare, x, weight, std::nullopt, epsilon);
}

}  // namespace rowgrad
