#pragma once

// Vectors of values that fill a CPU register. Kernels, `pointwise` functions and update rules are
// written once, for vectors. Operations work lane by lane, except in namespace `lanes`. A
// comparison returns a Mask, one bool for each lane, with which `select` chooses values:
//
//   select(x > 0, x, 0.1 * x)
//
// A Mask does not convert to `bool`, because a branch would decide for all lanes at once.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <type_traits>

#include <rowgrad/core/tensor/tensor.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || \
    defined(__ASSOCIATIVE_MATH__)
#error "rowgrad: compiled with -ffast-math or one of its flags, which breaks exp and log; omit it"
#endif

// A program may be compiled for another CPU than the library. This namespace is named after the
// instructions in use, so that the linker keeps the functions of both apart.
#if defined(__AVX512F__)
#define ROWGRAD_VECTORS avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define ROWGRAD_VECTORS avx2
#elif defined(__AVX__)
#define ROWGRAD_VECTORS avx
#elif defined(__SSE3__)
#define ROWGRAD_VECTORS sse3
#else
#define ROWGRAD_VECTORS baseline
#endif

namespace rowgrad::kernels {
inline namespace ROWGRAD_VECTORS {

/// One bool for each lane.
class Mask {
 public:
  /// Wraps an xsimd vector.
  explicit Mask(const xsimd::batch_bool<real>& lanes) : lanes_(lanes) {}
  const xsimd::batch_bool<real>& batch() const { return lanes_; }

  explicit operator bool() const = delete;  // lanes can differ: use select(condition, a, b)

  /// Combine masks lane by lane.
  friend Mask operator&&(const Mask& a, const Mask& b) { return Mask(a.lanes_ && b.lanes_); }
  friend Mask operator||(const Mask& a, const Mask& b) { return Mask(a.lanes_ || b.lanes_); }
  friend Mask operator!(const Mask& a) { return Mask(!a.lanes_); }

 private:
  xsimd::batch_bool<real> lanes_;
};

/// A vector of kLanes values, uninitialized by default.
class Simd {
 public:
  static constexpr std::size_t size = xsimd::batch<real>::size;  // values in a vector

  Simd() = default;
  /// Wraps an xsimd vector.
  explicit Simd(const xsimd::batch<real>& lanes) : lanes_(lanes) {}
  const xsimd::batch<real>& batch() const { return lanes_; }

  /// Sets all lanes to `value`.
  template <class Number>
  requires std::is_arithmetic_v<Number> Simd(Number value)
      : lanes_(static_cast<real>(value)) {}  // NOLINT: implicit

  /// Load or store `size` values. The aligned versions require the alignment of a vector.
  static Simd load_aligned(const real* from) {
    return Simd(xsimd::batch<real>::load_aligned(from));
  }
  static Simd load_unaligned(const real* from) {
    return Simd(xsimd::batch<real>::load_unaligned(from));
  }
  void store_aligned(real* to) const { lanes_.store_aligned(to); }
  void store_unaligned(real* to) const { lanes_.store_unaligned(to); }

  /// Compute lane by lane.
  friend Simd operator+(const Simd& a, const Simd& b) { return Simd(a.lanes_ + b.lanes_); }
  friend Simd operator-(const Simd& a, const Simd& b) { return Simd(a.lanes_ - b.lanes_); }
  friend Simd operator*(const Simd& a, const Simd& b) { return Simd(a.lanes_ * b.lanes_); }
  friend Simd operator/(const Simd& a, const Simd& b) { return Simd(a.lanes_ / b.lanes_); }
  friend Simd operator-(const Simd& a) { return Simd(-a.lanes_); }
  Simd& operator+=(const Simd& other) { return *this = *this + other; }
  Simd& operator-=(const Simd& other) { return *this = *this - other; }
  Simd& operator*=(const Simd& other) { return *this = *this * other; }
  Simd& operator/=(const Simd& other) { return *this = *this / other; }

  /// Compare lane by lane. All except != give false where a value is NaN.
  friend Mask operator<(const Simd& a, const Simd& b) { return Mask(a.lanes_ < b.lanes_); }
  friend Mask operator<=(const Simd& a, const Simd& b) { return Mask(a.lanes_ <= b.lanes_); }
  friend Mask operator>(const Simd& a, const Simd& b) { return Mask(a.lanes_ > b.lanes_); }
  friend Mask operator>=(const Simd& a, const Simd& b) { return Mask(a.lanes_ >= b.lanes_); }
  friend Mask operator==(const Simd& a, const Simd& b) { return Mask(a.lanes_ == b.lanes_); }
  friend Mask operator!=(const Simd& a, const Simd& b) { return !(a == b); }

 private:
  xsimd::batch<real> lanes_;
};

constexpr std::size_t kLanes = Simd::size;  // values in a vector

/// Returns a in the lanes where the condition holds, and b in the others.
inline Simd select(const Mask& condition, const Simd& a, const Simd& b) {
  return Simd(xsimd::select(condition.batch(), a.batch(), b.batch()));
}

/// Compute the functions of <cmath> and <algorithm>. Templates that also take scalars call them
/// without a namespace, after `using std::sqrt;`. If an argument is NaN, `min` and `max` return
/// either argument. `fma` rounds twice if compiled without FMA instructions.
inline Simd abs(const Simd& x) { return Simd(xsimd::abs(x.batch())); }
inline Simd sqrt(const Simd& x) { return Simd(xsimd::sqrt(x.batch())); }
inline Simd log1p(const Simd& x) { return Simd(xsimd::log1p(x.batch())); }
inline Simd tanh(const Simd& x) { return Simd(xsimd::tanh(x.batch())); }
inline Simd floor(const Simd& x) { return Simd(xsimd::floor(x.batch())); }
inline Simd ceil(const Simd& x) { return Simd(xsimd::ceil(x.batch())); }
inline Simd trunc(const Simd& x) { return Simd(xsimd::trunc(x.batch())); }
inline Simd min(const Simd& a, const Simd& b) { return Simd(xsimd::min(a.batch(), b.batch())); }
inline Simd max(const Simd& a, const Simd& b) { return Simd(xsimd::max(a.batch(), b.batch())); }
inline Simd fma(const Simd& a, const Simd& b, const Simd& c) {
  return Simd(xsimd::fma(a.batch(), b.batch(), c.batch()));
}
inline Mask isnan(const Simd& x) { return Mask(xsimd::isnan(x.batch())); }

/// Rounds to the nearest integer, and halves to even integers, unlike std::round.
inline Simd round(const Simd& x) { return Simd(xsimd::nearbyint(x.batch())); }

/// Computes exp. Near the ends of its range, xsimd's exp overflows too early or returns 0 instead
/// of subnormals. There, shifts x by a multiple of log 2, and multiplies the result by the matching
/// power of two. Beyond the ends, xsimd correctly returns 0 or ∞.
inline Simd exp(const Simd& x) {
  constexpr bool kFloat = sizeof(real) == 4;
  constexpr real kFirst = kFloat ? -104 : -746, kLast = kFloat ? 89 : 710;  // beyond: 0 or ∞
  constexpr real kSafe = kFloat ? 87 : 708;  // xsimd is right up to this magnitude
  // A single comparison of the distance from the middle finds values near either end.
  constexpr real kMiddle = (kFirst + kLast) / 2;
  constexpr real kFar = kLast - kMiddle, kNear = kSafe + kMiddle;
  const Mask may_need = abs(abs(x - kMiddle) - (kFar + kNear) / 2) < (kFar - kNear) / 2;
  if (xsimd::none(may_need.batch())) [[likely]]
    return Simd(xsimd::exp(x.batch()));
  constexpr real kPower = kFloat ? 64 : 512;
  constexpr real kHigh = kPower * static_cast<real>(0.693359375);  // kHigh + kLow = kPower · log 2
  constexpr real kLow = kPower * static_cast<real>(0.693147180559945309417L - 0.693359375L);
  const Mask at_ends = may_need && abs(x) > kSafe;
  const Mask is_low = x < 0;
  const Simd length = x - select(is_low, -kHigh, kHigh);  // exact
  const Simd low = select(is_low, -kLow, kLow);
  const Simd moved = length - low;
  const Simd rest = (length - moved) - low;  // the rounding error of `moved`
  const Simd y(xsimd::exp(select(at_ends, moved, x).batch()));
  const Simd factor = select(is_low, kFloat ? 0x1p-64 : 0x1p-512, kFloat ? 0x1p64 : 0x1p512);
  return select(at_ends, fma(y, rest, y) * factor, y);
}

/// Computes expm1, with exp where xsimd's expm1 overflows too early.
inline Simd expm1(const Simd& x) {
  const Simd y(xsimd::expm1(x.batch()));
  const Mask at_end = x > 80 && x < (sizeof(real) == 4 ? 89 : 710);
  if (xsimd::none(at_end.batch())) [[likely]]
    return y;
  return select(at_end, exp(x), y);
}

/// Computes log. Scales subnormal values, because xsimd's log is wrong for subnormal doubles.
inline Simd log(const Simd& x) {
  const Mask subnormal = x < std::numeric_limits<real>::min();
  const Simd y(xsimd::log(select(subnormal, x * 0x1p54, x).batch()));
  return y - select(subnormal, 54 * std::numbers::ln2, 0);
}

/// Computes erf. Clamps x, because xsimd's erf is NaN for large doubles, whose powers overflow.
inline Simd erf(const Simd& x) {
  return Simd(xsimd::erf(select(x > 6, 6, select(x < -6, -6, x)).batch()));  // erf(6) rounds to 1
}

/// Calls a scalar function for each lane.
template <class F, class... X>
Simd map_lanes(const F& f, const X&... x) {
  struct alignas(64) Lanes {
    explicit Lanes(const Simd& from) { from.store_aligned(values.data()); }
    std::array<real, kLanes> values;
  };
  const auto call = [&f](Lanes&& first, const auto&... rest) {
    for (std::size_t i = 0; i < kLanes; ++i)
      first.values[i] = f(first.values[i], rest.values[i]...);
    return Simd::load_aligned(first.values.data());
  };
  return call(Lanes(x)...);
}

/// Returns a · b + c, rounded once. (For floats without FMA, the sum is first rounded to double,
/// which hardly ever changes the result.)
inline Simd fma_exact(const Simd& a, const Simd& b, const Simd& c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return fma(a, b, c);
#else
  const auto once = [](real x, real y, real z) {
    if constexpr (std::is_same_v<real, float>)
      return static_cast<real>(double{x} * y + z);
    else
      return std::fma(x, y, z);
  };
  return map_lanes(once, a, b, c);
#endif
}

/// Call the scalar functions. With xsimd's functions, the last bits of a lane would depend on other
/// lanes.
#define ROWGRAD_LANE_BY_LANE(name)                            \
  inline Simd name(const Simd& x) {                           \
    return map_lanes([](real v) { return std::name(v); }, x); \
  }
ROWGRAD_LANE_BY_LANE(sin)
ROWGRAD_LANE_BY_LANE(cos)
ROWGRAD_LANE_BY_LANE(tan)
ROWGRAD_LANE_BY_LANE(exp2)
ROWGRAD_LANE_BY_LANE(log2)
ROWGRAD_LANE_BY_LANE(log10)
#undef ROWGRAD_LANE_BY_LANE

/// Compute in double precision and round once.
inline Simd pow(const Simd& base, double exponent) {
  return map_lanes([=](real x) { return static_cast<real>(std::pow(double{x}, exponent)); }, base);
}
inline Simd pow(const Simd& base, const Simd& exponent) {
  return map_lanes([](real x, real y) { return static_cast<real>(std::pow(double{x}, double{y})); },
                   base, exponent);
}

/// Functions across lanes, for kernels. Do not use them in `pointwise` functions and update rules,
/// where elements must not affect each other.
namespace lanes {

/// Returns true if all lanes are true.
inline bool all(const Mask& mask) { return xsimd::all(mask.batch()); }
/// Returns the sum of the lanes.
inline real sum(const Simd& x) { return sum_of_lanes(x.batch()); }
/// Returns the largest lane.
inline real largest(const Simd& x) {
  alignas(64) std::array<real, kLanes> values;
  x.store_aligned(values.data());
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) values[i] = std::max(values[i], values[i + half]);
  return values[0];
}

}  // namespace lanes
}  // namespace ROWGRAD_VECTORS
}  // namespace rowgrad::kernels

namespace rowgrad {

using kernels::select;
using kernels::Simd;

/// Selects between scalars, for templates that take scalars or vectors.
inline double select(bool condition, double a, double b) { return condition ? a : b; }

}  // namespace rowgrad
