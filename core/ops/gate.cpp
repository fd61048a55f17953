#include <functional>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/gate.hpp>
#include <rowgrad/core/ops/gate.hpp>
#include <rowgrad/core/ops/normalize.hpp>

namespace rowgrad {

Variable memory_gate(const Variable& key, const Variable& x, const Variable& key_weight,
                     const Variable& x_weight, double epsilon) {
  Shape shape = x.shape();
  check_argument(
      !shape.empty() && shape.back() > 0 && key.shape() == shape &&
          key_weight.shape() == Shape{shape.back()} && x_weight.shape() == Shape{shape.back()},
      "memory_gate: key and x have shapes ", bracketed(key.shape()), " and ", bracketed(shape),
      ", their weights ", bracketed(key_weight.shape()), " and ", bracketed(x_weight.shape()),
      ", expected [..., width] with a width above 0, and [width]");
  check_norm_epsilon("memory_gate", epsilon);
  const std::size_t width = shape.back();
  const std::size_t rows = x.value().size() / width;
  shape.back() = 1;
  std::vector<double> weights(width);
  for (std::size_t c = 0; c < width; ++c)
    weights[c] =
        static_cast<double>(key_weight.value()(c)) * static_cast<double>(x_weight.value()(c));
  Tensor gates = empty(shape);
  std::vector<kernels::GateRow> kept(rows);
  kernels::gate_rows(key.value().data(), x.value().data(), rows, width, weights.data(), epsilon,
                     gates.data(), kept.data());
  return record("memory_gate", {key, x, key_weight, x_weight}, std::move(gates),
                [=, weights = std::move(weights), kept = std::move(kept)](Backward& node) {
                  const auto of = [&](std::size_t i) { return node.input(i).data(); };
                  const auto compute = [&](real* dx, bool add) {
                    Tensor dkey = empty(node.input_shape(0));
                    Tensor dweights = empty({width});
                    kernels::gate_rows_backward(
                        of(0), of(1), rows, width, weights.data(), kept.data(),
                        node.output().data(), node.gradient().data(),
                        {.k = node.needs(0) ? dkey.data() : nullptr,
                         .x = dx,
                         .add_x = add,
                         .weights = node.needs(2) || node.needs(3) ? dweights.data() : nullptr});
                    if (node.needs(0)) node.give(0, std::move(dkey));
                    for (const std::size_t i : {2, 3})
                      if (node.needs(i))
                        node.give(i,
                                  kernels::map(std::multiplies<>(), dweights, node.input(5 - i)));
                  };
                  if (node.needs(1))
                    node.into(1, compute);
                  else
                    compute(nullptr, false);
                });
}

}  // namespace rowgrad
