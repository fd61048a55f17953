#include <numbers>

#include <rowgrad/core/ops/pointwise.hpp>

namespace rowgrad {
namespace {

constexpr real kInverseSqrt2 = std::numbers::sqrt2_v<real> / 2;
constexpr real kInverseSqrt2Pi = kInverseSqrt2 * std::numbers::inv_sqrtpi_v<real>;

// Φ(x) and φ(x) of the standard normal distribution.
Simd normal_cdf(const Simd& x) {
  return real{0.5} * (real{1} + xsimd::erf(x * Simd(kInverseSqrt2)));
}
Simd normal_density(const Simd& x) {
  return Simd(kInverseSqrt2Pi) * xsimd::exp(real{-0.5} * x * x);
}

// The approximation's inner function sqrt(2 / π) (x + 0.044715 x³), and its derivative.
constexpr real kCubic = static_cast<real>(0.044715);
constexpr real kSqrt2OverPi = 2 * kInverseSqrt2Pi;
Simd gelu_inner(const Simd& x) { return Simd(kSqrt2OverPi) * (x + Simd(kCubic) * x * x * x); }
Simd gelu_inner_derivative(const Simd& x) {
  return Simd(kSqrt2OverPi) * (real{1} + Simd(3 * kCubic) * x * x);
}

}  // namespace

Variable exp(const Variable& x) {
  return pointwise(
      "exp", x, [](const Simd& v) { return xsimd::exp(v); },
      [](const Simd& g, const Simd&, const Simd& y) { return g * y; });
}

Variable log(const Variable& x) {
  return pointwise(
      "log", x, [](const Simd& v) { return xsimd::log(v); },
      [](const Simd& g, const Simd& v, const Simd&) { return g / v; });
}

Variable tanh(const Variable& x) {
  return pointwise(
      "tanh", x, [](const Simd& v) { return xsimd::tanh(v); },
      [](const Simd& g, const Simd&, const Simd& y) { return g * (real{1} - y * y); });
}

Variable sigmoid(const Variable& x) {
  return pointwise(
      "sigmoid", x, [](const Simd& v) { return real{1} / (real{1} + xsimd::exp(-v)); },
      [](const Simd& g, const Simd&, const Simd& y) { return g * y * (real{1} - y); });
}

Variable relu(const Variable& x) {
  return pointwise(
      "relu", x, [](const Simd& v) { return xsimd::select(v < Simd(real{0}), Simd(real{0}), v); },
      [](const Simd& g, const Simd& v, const Simd&) {
        return xsimd::select(v > Simd(real{0}), g, Simd(real{0}));
      });
}

Variable gelu(const Variable& x) {
  return pointwise(
      "gelu", x, [](const Simd& v) { return v * normal_cdf(v); },
      [](const Simd& g, const Simd& v, const Simd&) {
        return g * (normal_cdf(v) + v * normal_density(v));
      });
}

Variable gelu_tanh(const Variable& x) {
  return pointwise(
      "gelu_tanh", x,
      [](const Simd& v) { return real{0.5} * v * (real{1} + xsimd::tanh(gelu_inner(v))); },
      [](const Simd& g, const Simd& v, const Simd&) {
        const Simd t = xsimd::tanh(gelu_inner(v));
        return g * real{0.5} * (real{1} + t + v * (real{1} - t * t) * gelu_inner_derivative(v));
      });
}

}  // namespace rowgrad
