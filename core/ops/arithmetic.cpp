#include <functional>

#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/core/ops/pointwise.hpp>

namespace rowgrad {

using kernels::broadcast_map;
using kernels::sum_to;

namespace {

constexpr std::multiplies<> kProduct;
constexpr std::divides<> kQuotient;

// a + sign · b. Backward handles the second input first: it is the one that is usually broadcast,
// and the first input can then take over the memory of the gradient.
Variable add_signed(OpName op, const Variable& a, const Variable& b, const auto& f, real sign) {
  return record(op, {a, b}, broadcast_map(op, f, a.value(), b.value()), [sign](Backward& node) {
    if (node.needs(1)) {
      Gradient gradient = sum_to(node.gradient(), node.input_shape(1));
      gradient.scale(sign);
      node.give(1, std::move(gradient));
    }
    if (node.needs(0)) node.give(0, sum_to(node.take_gradient(), node.input_shape(0)));
  });
}

}  // namespace

Variable operator+(const Variable& a, const Variable& b) {
  return add_signed("add", a, b, std::plus<>(), 1);
}

Variable operator-(const Variable& a, const Variable& b) {
  return add_signed("subtract", a, b, std::minus<>(), -1);
}

Variable operator*(const Variable& a, const Variable& b) {
  return record("multiply", {a, b}, broadcast_map("multiply", kProduct, a.value(), b.value()),
                [](Backward& node) {
                  for (std::size_t i = 0; i < 2; ++i)
                    if (node.needs(i))
                      node.give(i, sum_to(broadcast_map("multiply", kProduct, node.gradient(),
                                                        node.input(1 - i)),
                                          node.input_shape(i)));
                });
}

Variable operator/(const Variable& a, const Variable& b) {
  return record(
      "divide", {a, b}, broadcast_map("divide", kQuotient, a.value(), b.value()),
      [](Backward& node) {
        Tensor over_b = broadcast_map("divide", kQuotient, node.gradient(), node.input(1));
        if (node.needs(1))
          node.give(
              1, sum_to(kernels::map([](Simd g, Simd y) { return -g * y; }, over_b, node.output()),
                        node.input_shape(1)));
        if (node.needs(0)) node.give(0, sum_to(std::move(over_b), node.input_shape(0)));
      });
}

Variable operator-(const Variable& x) {
  return pointwise("negate", x, std::negate<>(), [](Simd g, Simd, Simd) { return -g; });
}

Variable operator+(const Variable& x, real number) {
  return pointwise(
      "add", x, [number](Simd v) { return v + Simd(number); },
      [](Simd g, Simd, Simd) { return g; });
}

Variable operator-(real number, const Variable& x) {
  return pointwise(
      "subtract", x, [number](Simd v) { return Simd(number) - v; },
      [](Simd g, Simd, Simd) { return -g; });
}

Variable operator*(const Variable& x, real number) {
  return pointwise(
      "multiply", x, [number](Simd v) { return v * Simd(number); },
      [number](Simd g, Simd, Simd) { return g * Simd(number); });
}

Variable operator/(const Variable& x, real number) {
  return pointwise(
      "divide", x, [number](Simd v) { return v / Simd(number); },
      [number](Simd g, Simd, Simd) { return g / Simd(number); });
}

Variable operator/(real number, const Variable& x) {
  return pointwise(
      "divide", x, [number](Simd v) { return Simd(number) / v; },
      [](Simd g, Simd v, Simd y) { return -g * y / v; });
}

}  // namespace rowgrad
