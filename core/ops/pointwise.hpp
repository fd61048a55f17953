#pragma once

// Element-wise ops: arithmetic with broadcasting as in NumPy, mathematical functions, and dropout.
// pointwise() makes an op from a function and its derivative. Wrong arguments and shapes throw
// std::invalid_argument naming the op.

#include <type_traits>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad {

/// Operate element by element; two operands are broadcast.
Variable operator+(const Variable& a, const Variable& b);
Variable operator-(const Variable& a, const Variable& b);
Variable operator*(const Variable& a, const Variable& b);
Variable operator/(const Variable& a, const Variable& b);
Variable operator-(const Variable& x);

/// Combine every element with a scalar.
Variable operator+(const Variable& x, real number);
Variable operator-(real number, const Variable& x);
Variable operator*(const Variable& x, real number);
Variable operator/(const Variable& x, real number);
Variable operator/(real number, const Variable& x);
inline Variable operator+(real number, const Variable& x) { return x + number; }
inline Variable operator-(const Variable& x, real number) { return x + -number; }
inline Variable operator*(real number, const Variable& x) { return x * number; }

/// Computes y = function(x) for every element of x. `function` takes and returns a Simd
/// (kernels/simd.hpp). backward(g, x, y) returns the gradient of x, given the gradient g of y.
/// Instead of branches, write `select(x > 0, x, 0.1 * x)`.
template <class Function, class BackwardFunction>
Variable pointwise(OpName op, const Variable& x, const Function& function,
                   BackwardFunction backward) {
  return record(op, {x}, kernels::map(function, x.read()), [backward](Backward& node) {
    node.slot(0).take(
        kernels::map_in_place(backward, node.take_gradient(), node.input(0), node.output()));
  });
}

/// Computes y = function(a, b) for every pair of elements, with broadcasting. of_a(g, a, b) and
/// of_b(g, a, b) return the gradients of a and b. The shorter forms of_a(g, b) and of_b(g, a) are
/// faster. A fourth parameter gets the value y.
template <class Function, class OfA, class OfB>
Variable pointwise(OpName op, const Variable& a, const Variable& b, const Function& function,
                   OfA of_a, OfB of_b) {
  return record(op, {a, b}, kernels::broadcast_map(op, function, a.read(), b.read()),
                [of_a, of_b](Backward& node) {
                  const auto add_gradient = [&](std::size_t i, const auto& of, bool last) {
                    GradientSlot slot = node.slot(i);
                    if (!slot) return;
                    Tensor result = last ? node.take_gradient() : empty(node.output().shape());
                    const Tensor& g = last ? result : node.gradient();
                    if constexpr (std::is_invocable_v<decltype(of), Simd, Simd>)
                      kernels::broadcast_into(result, of, g, node.input(1 - i));
                    else if constexpr (std::is_invocable_v<decltype(of), Simd, Simd, Simd, Simd>)
                      kernels::broadcast_into(result, of, g, node.input(0), node.input(1),
                                              node.output());
                    else
                      kernels::broadcast_into(result, of, g, node.input(0), node.input(1));
                    slot.take(kernels::sum_to(std::move(result), node.input_shape(i)));
                  };
                  add_gradient(1, of_b, !node.slot(0));
                  add_gradient(0, of_a, true);  // reuses the memory of the gradient
                });
}

/// Compare elements, with broadcasting, or with a scalar. Return a constant: 1 where the comparison
/// holds, else 0. Comparisons with NaN give 0, except ne().
Variable eq(const Variable& a, const Variable& b);  // a = b
Variable ne(const Variable& a, const Variable& b);  // a ≠ b
Variable lt(const Variable& a, const Variable& b);  // a < b
Variable le(const Variable& a, const Variable& b);  // a ≤ b
Variable gt(const Variable& a, const Variable& b);  // a > b
Variable ge(const Variable& a, const Variable& b);  // a ≥ b
Variable eq(const Variable& x, real number);
Variable ne(const Variable& x, real number);
Variable lt(const Variable& x, real number);
Variable le(const Variable& x, real number);
Variable gt(const Variable& x, real number);
Variable ge(const Variable& x, real number);

Variable exp(const Variable& x);          // eˣ
Variable exp2(const Variable& x);         // 2ˣ
Variable expm1(const Variable& x);        // eˣ − 1, accurate for small x
Variable log(const Variable& x);          // the natural logarithm: NaN below 0, −∞ at 0
Variable log2(const Variable& x);         // the logarithm to base 2
Variable log10(const Variable& x);        // the logarithm to base 10
Variable log1p(const Variable& x);        // log(1 + x), accurate for small x
Variable sin(const Variable& x);          // the sine of x in radians
Variable cos(const Variable& x);          // the cosine of x in radians
Variable tan(const Variable& x);          // the tangent of x in radians
Variable erf(const Variable& x);          // 2 / √π ∫ exp(−t²) dt from 0 to x
Variable tanh(const Variable& x);         // (eˣ − e⁻ˣ) / (eˣ + e⁻ˣ)
Variable sigmoid(const Variable& x);      // 1 / (1 + exp(−x))
Variable log_sigmoid(const Variable& x);  // log(sigmoid(x)), accurate for large |x|
Variable softplus(const Variable& x);     // log(1 + exp(x)), which does not overflow
Variable relu(const Variable& x);         // max(x, 0), NaN for NaN; the gradient at 0 is 0
Variable sqrt(const Variable& x);         // the square root: NaN below 0
Variable abs(const Variable& x);          // the absolute value; the gradient at 0 is 0

/// Return −1, 0 or 1 (0 for NaN), or an integer next to x. The gradient is 0.
Variable sign(const Variable& x);
Variable floor(const Variable& x);  // the largest integer ≤ x
Variable ceil(const Variable& x);   // the smallest integer ≥ x
Variable round(const Variable& x);  // the nearest integer; halves are rounded to even integers
Variable trunc(const Variable& x);  // the integer part

/// Raise x to a power, with the special cases of std::pow; two variables are broadcast. The
/// exponent's gradient is 0 where x is 0 and the exponent at least 0.
Variable pow(const Variable& x, double exponent);
Variable pow(const Variable& x, const Variable& exponent);
Variable pow(real base, const Variable& exponent);

/// Limits x to [low, high]. NaN stays NaN. The gradient is 0 outside the range and for NaN. Throws
/// std::invalid_argument unless low ≤ high.
Variable clamp(const Variable& x, real low, real high);

/// Returns x if x is above 0, else negative_slope · x (Maas, Hannun & Ng 2013).
Variable leaky_relu(const Variable& x, double negative_slope = 0.01);

/// Returns x if x is above 0, else alpha · (eˣ − 1) (Clevert, Unterthiner & Hochreiter 2016).
Variable elu(const Variable& x, double alpha = 1);

/// Returns x sigmoid(x) (Elfwing, Uchibe & Doya 2018), also known as swish.
Variable silu(const Variable& x);

/// Returns x tanh(softplus(x)) (Misra 2020).
Variable mish(const Variable& x);

/// Returns x Φ(x) (Hendrycks & Gimpel 2016).
Variable gelu(const Variable& x);
/// Approximates gelu() with tanh (GPT-2).
Variable gelu_tanh(const Variable& x);

/// Returns the values of x as a constant, so that backward stops there.
Variable detach(const Variable& x);

/// Sets each element to 0 with probability p and divides it by 1 − p otherwise (Srivastava et al.
/// 2014, inverted, so that evaluation needs no scaling). Draws from the tape's generator as PyTorch
/// does on CPUs without MKL: 64 bits per element, in memory order. If p is 0, returns x itself.
/// Otherwise, throws std::logic_error on a tape without a generator.
Variable dropout(const Variable& x, double p);

}  // namespace rowgrad
