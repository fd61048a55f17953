#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>

#include <rowgrad/core/kernels/dropout.hpp>
#include <rowgrad/core/ops/pointwise.hpp>

namespace rowgrad {

using kernels::broadcast_map;
using kernels::sum_to;

namespace {

// Makes an op of one variable from two expressions: its value y in terms of x, and the gradient of
// x in terms of x, y and the gradient g of y.
#define ROWGRAD_POINTWISE(op, variable, value, slope)                                  \
  pointwise(                                                                           \
      op, variable, [=](Simd x) { return value; },                                     \
      [=]([[maybe_unused]] Simd g, [[maybe_unused]] Simd x, [[maybe_unused]] Simd y) { \
        return slope;                                                                  \
      })

// Records a + sign · b. Backward first computes the gradient of b, because b is the operand that is
// usually broadcast. Then the gradient of a reuses the memory of the upstream gradient.
Variable add_signed(OpName op, const Variable& a, const Variable& b, const auto& f, real sign) {
  return record(op, {a, b}, broadcast_map(op, f, a.read(), b.read()), [sign](Backward& node) {
    if (GradientSlot slot = node.slot(1)) {
      Gradient gradient = sum_to(node.gradient(), node.input_shape(1));
      gradient.scale(sign);
      slot.take(std::move(gradient));
    }
    if (GradientSlot slot = node.slot(0))
      slot.take(sum_to(node.take_gradient(), node.input_shape(0)));
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
  constexpr std::multiplies<> product;
  return pointwise("multiply", a, b, product, product, product);
}

Variable operator/(const Variable& a, const Variable& b) {
  return record("divide", {a, b}, broadcast_map("divide", std::divides<>(), a.read(), b.read()),
                [](Backward& node) {
                  Tensor over_b =
                      broadcast_map("divide", std::divides<>(), node.gradient(), node.input(1));
                  if (GradientSlot slot = node.slot(1))
                    slot.take(sum_to(
                        kernels::map([](Simd g, Simd y) { return -g * y; }, over_b, node.output()),
                        node.input_shape(1)));
                  if (GradientSlot slot = node.slot(0))
                    slot.take(sum_to(std::move(over_b), node.input_shape(0)));
                });
}

#define ROWGRAD_COMPARISON(name, sign)                                         \
  Variable name(const Variable& a, const Variable& b) {                        \
    check_state(&a.tape() == &b.tape(), #name ": b belongs to another tape");  \
    const auto holds = [](Simd x, Simd y) { return select(x sign y, 1, 0); };  \
    return a.tape().constant(broadcast_map(#name, holds, a.read(), b.read())); \
  }                                                                            \
  Variable name(const Variable& x, real number) {                              \
    return name(x, x.tape().constant(scalar(number)));                         \
  }

ROWGRAD_COMPARISON(eq, ==)
ROWGRAD_COMPARISON(ne, !=)
ROWGRAD_COMPARISON(lt, <)
ROWGRAD_COMPARISON(le, <=)
ROWGRAD_COMPARISON(gt, >)
ROWGRAD_COMPARISON(ge, >=)

namespace {

constexpr real kInverseSqrt2 = std::numbers::sqrt2_v<real> / 2;
constexpr real kInverseSqrt2Pi = kInverseSqrt2 * std::numbers::inv_sqrtpi_v<real>;

// The standard normal distribution at x.
struct Normal {
  Simd cdf;      // Φ(x)
  Simd density;  // φ(x)
};

Normal normal(Simd x) {
  const Simd power = exp(real{-0.5} * x * x);
  const Simd density = Simd(kInverseSqrt2Pi) * power;
  if constexpr (sizeof(real) == 8)
    return {real{0.5} * (real{1} + erf(x * Simd(kInverseSqrt2))), density};
  // Abramowitz & Stegun 1964, "Handbook of Mathematical Functions", 7.1.26, with a polynomial
  // fitted for a relative error below 2⁻²⁴. Takes half the time of erf(), which computes a second
  // exp().
  constexpr std::array<real, 8> kTail{0.037467711F, -0.17020841F, 0.23828523F, -0.082432032F,
                                      0.143875F,    0.094325818F, 0.12031084F, 0.1183758F};
  const Simd t = real{1} / fma(Simd(real{0.42F} * kInverseSqrt2), abs(x), Simd(1));
  Simd tail(kTail[0]);
  for (std::size_t i = 1; i < kTail.size(); ++i) tail = fma(tail, t, Simd(kTail[i]));
  tail *= t * power;
  return {select(x > 0, real{1} - tail, tail), density};
}

// Approximates Φ(x) by (1 + tanh(u)) / 2 = 1 / (1 + exp(−2u)) with u = sqrt(2 / π) (x + 0.044715
// x³). The second form takes half the time.
constexpr real kCubic = static_cast<real>(0.044715);
constexpr real kTwice = 4 * kInverseSqrt2Pi;  // 2 sqrt(2 / π)
Simd gelu_share(Simd x) {
  return real{1} / (real{1} + exp(Simd(-kTwice) * fma(Simd(kCubic) * x * x, x, x)));
}

// Returns log(1 + exp(−|v|)) = softplus(v) − max(v, 0), which is in (0, log 2].
Simd softplus_rest(Simd v) { return log1p(exp(-abs(v))); }

// Returns x^power. Common powers are faster than with pow(), and have the same edge values.
Simd power_of(Simd x, double power) {
  constexpr real kInfinite = std::numeric_limits<real>::infinity();
  if (power == 0) return Simd(1);
  if (power == 1) return x;
  if (power == 2) return x * x;
  if (power == 3) return x * x * x;
  if (power == -1) return 1 / x;
  if (power == -2) return (1 / x) * (1 / x);
  if (power == 0.5) return select(x == -kInfinite, kInfinite, sqrt(x) + 0);  // not NaN, not −0
  if (power == -0.5) return 1 / power_of(x, 0.5);
  return pow(x, power);
}

// Records y = function(x).first, where function(x).second is the slope. Computing both in one pass
// costs little more than y alone, and backward only multiplies.
Variable with_slope(OpName op, const Variable& x, const auto& function) {
  if (!x.needs_gradient())
    return record(op, {x}, kernels::map([&](Simd v) { return function(v).first; }, x.read()), {});
  Tensor y = empty(x.shape());
  Tensor slope = empty(x.shape());
  kernels::parallel_for(x.value().size(), kernels::kGrainElements / 4,
                        [&, from = x.read().data(), to = y.data(), to_slope = slope.data()](
                            std::size_t begin, std::size_t end) {
                          kernels::for_vectors(begin, end, [=](const auto& v) {
                            const auto result = function(v.load(from));
                            v.store(result.first, to);
                            v.store(result.second, to_slope);
                          });
                        });
  return record(op, {x}, std::move(y), [slope = std::move(slope)](Backward& node) {
    node.slot(0).take(kernels::map_in_place(std::multiplies<>(), node.take_gradient(), slope));
  });
}

}  // namespace

#define ROWGRAD_OP(declaration, op, value, slope) \
  Variable declaration { return ROWGRAD_POINTWISE(op, v, value, slope); }
#define ROWGRAD_FUNCTION(name, value, slope) \
  ROWGRAD_OP(name(const Variable& v), #name, value, slope)

// clang-format off
ROWGRAD_OP(operator-(const Variable& v), "negate", -x, -g)
ROWGRAD_OP(operator+(const Variable& v, real number), "add", x + number, g)
ROWGRAD_OP(operator-(real number, const Variable& v), "subtract", number - x, -g)
ROWGRAD_OP(operator*(const Variable& v, real number), "multiply", x * number, g * number)
ROWGRAD_OP(operator/(const Variable& v, real number), "divide", x / number, g / number)
ROWGRAD_OP(operator/(real number, const Variable& v), "divide", number / x, -g * y / x)
ROWGRAD_FUNCTION(exp, exp(x), g * y)
ROWGRAD_FUNCTION(exp2, exp2(x), g * y * std::numbers::ln2)
ROWGRAD_FUNCTION(expm1, expm1(x), g * exp(x))
ROWGRAD_FUNCTION(log, log(x), g / x)
ROWGRAD_FUNCTION(log2, log2(x), g / (x * std::numbers::ln2))
ROWGRAD_FUNCTION(log10, log10(x), g / (x * std::numbers::ln10))
ROWGRAD_FUNCTION(log1p, log1p(x), g / (1 + x))
ROWGRAD_FUNCTION(sin, sin(x), g * cos(x))
ROWGRAD_FUNCTION(cos, cos(x), -g * sin(x))
ROWGRAD_FUNCTION(tan, tan(x), g * (1 + y * y))
ROWGRAD_FUNCTION(erf, erf(x), g * exp(-x * x) * (2 * std::numbers::inv_sqrtpi))
ROWGRAD_FUNCTION(tanh, tanh(x), g * fma(-y, y, Simd(1)))
ROWGRAD_FUNCTION(sigmoid, 1 / (1 + exp(-x)), g * y * (1 - y))
ROWGRAD_FUNCTION(log_sigmoid, min(x, 0) - softplus_rest(x), g / (1 + exp(x)))
ROWGRAD_FUNCTION(softplus, max(x, 0) + softplus_rest(x), g / (1 + exp(-x)))
ROWGRAD_FUNCTION(relu, select(x < 0, 0, x), select(x <= 0, 0, g))
ROWGRAD_FUNCTION(sqrt, sqrt(x), 0.5 * g / y)
ROWGRAD_FUNCTION(abs, abs(x), select(x > 0, g, select(x < 0, -g, 0)))
ROWGRAD_FUNCTION(sign, select(x > 0, 1, select(x < 0, -1, 0)), Simd(0))
ROWGRAD_FUNCTION(floor, floor(x), Simd(0))
ROWGRAD_FUNCTION(ceil, ceil(x), Simd(0))
ROWGRAD_FUNCTION(round, round(x), Simd(0))
ROWGRAD_FUNCTION(trunc, trunc(x), Simd(0))
ROWGRAD_OP(pow(const Variable& v, double power), "pow",
           power_of(x, power), power * g * power_of(x, power == 0 ? 0 : power - 1))
ROWGRAD_OP(pow(real base, const Variable& v), "pow",
           pow(Simd(base), x), select(Simd(base) == 0 && x >= 0, 0, g * y * std::log(base)))
ROWGRAD_OP(leaky_relu(const Variable& v, double slope), "leaky_relu",
           select(x > 0, x, slope * x), select(x > 0, g, slope * g))
ROWGRAD_OP(elu(const Variable& v, double alpha), "elu",
           select(x <= 0, alpha * expm1(x), x), select(x <= 0, alpha * g * exp(x), g))
// clang-format on

Variable pow(const Variable& x, const Variable& exponent) {
  return pointwise(
      "pow", x, exponent, [](Simd a, Simd b) { return pow(a, b); },
      [](Simd g, Simd a, Simd b) { return select(b == 0, 0, g * b * pow(a, b - 1)); },
      [](Simd g, Simd a, Simd b, Simd y) { return select(a == 0 && b >= 0, 0, g * y * log(a)); });
}

Variable clamp(const Variable& v, real low, real high) {
  check_argument(low <= high, "clamp: low is ", low, " and high ", high, ", expected low <= high");
  return ROWGRAD_POINTWISE("clamp", v, select(x < low, low, select(x > high, high, x)),
                           select(x >= low && x <= high, g, 0));
}

Variable silu(const Variable& x) {
  return with_slope("silu", x, [](Simd v) {
    const Simd share = real{1} / (real{1} + exp(-v));
    return std::pair(v * share, share * fma(v, real{1} - share, Simd(1)));
  });
}

Variable mish(const Variable& x) {
  return with_slope("mish", x, [](Simd v) {
    // From 40 on, tanh(softplus(v)) rounds to 1, and its slope to 0.
    const Simd low = select(v > 40, 40, v);
    const Simd power = exp(low);
    const Simd sum = power * (power + 2);  // tanh(softplus(v)) = sum / (sum + 2)
    const Simd share = sum / (sum + 2);
    return std::pair(v * share,
                     share + low * (1 + share) * (2 / (sum + 2)) * (power / (power + 1)));
  });
}

Variable gelu(const Variable& x) {
  return with_slope("gelu", x, [](Simd v) {
    const auto [cdf, density] = normal(v);
    return std::pair(v * cdf, fma(v, density, cdf));
  });
}

Variable gelu_tanh(const Variable& x) {
  return with_slope("gelu_tanh", x, [](Simd v) {
    const Simd share = gelu_share(v);
    // Becomes 0 for large |v|, before a power of v overflows.
    const Simd rest = share * (real{1} - share) * v;
    return std::pair(v * share,
                     fma(Simd(kTwice), fma(Simd(3 * kCubic) * rest * v, v, rest), share));
  });
}

Variable detach(const Variable& x) { return x.tape().constant(x.read()); }

Variable dropout(const Variable& x, double p) {
  check_argument(p >= 0 && p <= 1, "dropout: p is ", p, ", expected 0 to 1");
  if (p == 0) return x;
  const std::size_t count = x.value().size();
  const auto factor = static_cast<real>(p < 1 ? 1 / (1 - p) : 0);
  kernels::DropoutMask mask = kernels::draw_dropout_mask(x.tape().random("dropout"), count, p);
  Tensor value = empty(x.shape());
  kernels::apply_dropout_mask(mask, count, x.read().data(), factor, value.data());
  return record("dropout", {x}, std::move(value), [mask = std::move(mask), factor](Backward& node) {
    Tensor dx = node.take_gradient();
    kernels::apply_dropout_mask(mask, dx.size(), dx.data(), factor, dx.data());
    node.slot(0).take(std::move(dx));
  });
}

}  // namespace rowgrad
