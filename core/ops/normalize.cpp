#include <cmath>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/normalize.hpp>
#include <rowgrad/core/ops/normalize.hpp>

namespace rowgrad {

using kernels::RowNorm;

namespace {

void check_normalized(const char* op, const Variable& x, double epsilon) {
  check_argument(!x.shape().empty() && x.shape().back() > 0, op, ": x has shape ",
                 bracketed(x.shape()), ", expected [..., width] with a width above 0");
  check_norm_epsilon(op, epsilon);
}

// The weight or bias called `name`, or a row of one number if there is none.
Variable row_or(const char* op, const char* name, const Variable& x,
                const std::optional<Variable>& row, real number) {
  const std::size_t width = x.shape().back();
  if (!row) return x.tape().constant(full({width}, number));
  check_argument(row->shape() == Shape{width}, op, ": ", name, " has shape ",
                 bracketed(row->shape()), ", expected [", width, "] for x of ",
                 bracketed(x.shape()));
  return *row;
}

// `inputs` are x, the weight and, in layer normalisation, the bias.
Variable normalize_last_axis(OpName op, RowNorm norm, std::initializer_list<Variable> inputs,
                             double epsilon) {
  const bool has_bias = norm == RowNorm::kLayer;
  const auto data = [&](std::size_t i) { return inputs.begin()[i].value().data(); };
  const Shape& shape = inputs.begin()->shape();
  const std::size_t width = shape.back();
  Tensor y = empty(shape);
  const std::size_t rows = y.size() / width;
  std::vector<kernels::RowScaling> scalings(rows);
  kernels::normalize_rows(norm, data(0), rows, width, data(1), has_bias ? data(2) : nullptr,
                          epsilon, y.data(), scalings.data());

  auto rule = [=, scalings = std::move(scalings)](Backward& node) {
    // The kernel adds dx to the gradient of x, or replaces the upstream gradient.
    Tensor upstream = node.take_gradient();
    Tensor* const sum = node.gradient_so_far(0);
    real* const dx = sum != nullptr ? sum->data() : upstream.data();
    Tensor dweight = empty({width});
    Tensor dbias = empty({width});
    kernels::normalize_rows_backward(norm, node.input(0).data(), upstream.data(), rows, width,
                                     node.input(1).data(), scalings.data(),
                                     {.x = node.needs(0) ? dx : nullptr,
                                      .add_x = sum != nullptr,
                                      .weight = node.needs(1) ? dweight.data() : nullptr,
                                      .bias = has_bias && node.needs(2) ? dbias.data() : nullptr});
    if (node.needs(0)) node.give(0, sum != nullptr ? Gradient() : std::move(upstream));
    if (node.needs(1)) node.give(1, std::move(dweight));
    if (has_bias && node.needs(2)) node.give(2, std::move(dbias));
  };
  return record(op, inputs, std::move(y), std::move(rule));
}

}  // namespace

Variable layer_norm(const Variable& x, const std::optional<Variable>& weight,
                    const std::optional<Variable>& bias, double epsilon) {
  static constexpr char kName[] = "layer_norm";
  check_normalized(kName, x, epsilon);
  return normalize_last_axis(
      kName, RowNorm::kLayer,
      {x, row_or(kName, "weight", x, weight, 1), row_or(kName, "bias", x, bias, 0)}, epsilon);
}

Variable rms_norm(const Variable& x, const std::optional<Variable>& weight, double epsilon) {
  static constexpr char kName[] = "rms_norm";
  check_normalized(kName, x, epsilon);
  return normalize_last_axis(kName, RowNorm::kRootMeanSquare,
                             {x, row_or(kName, "weight", x, weight, 1)}, epsilon);
}

void check_norm_epsilon(const char* caller, double epsilon) {
  check_argument(std::isfinite(epsilon) && epsilon >= 0, caller, ": epsilon is ", epsilon,
                 ", expected a finite number not below 0");
}

}  // namespace rowgrad
