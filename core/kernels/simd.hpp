#pragma once

// Vectors of numbers, as many as a register of the processor holds. Functions of numbers are
// written for them, once: kernels, `pointwise` and update rules. Every operation works lane by
// lane. A comparison gives a Mask, a yes or no for each lane, with which `select` chooses values:
//
//   select(x > 0, x, 0.1 * x)
//
// There is no branch, for it would decide for all lanes at once: a Mask is no `bool`.

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
#error "rowgrad: compiled with -ffast-math or a part of it: exp and log would be wrong; omit it"
#endif

// A program may be compiled for another processor than the library. What is compiled from headers
// is therefore named by the kind of vectors: the linker must not take one for the other.
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

/// A yes or no for each lane.
class Mask {
 public:
  /// Wraps a vector of xsimd.
  explicit Mask(const xsimd::batch_bool<real>& lanes) : lanes_(lanes) {}
  const xsimd::batch_bool<real>& batch() const { return lanes_; }

  explicit operator bool() const = delete;  // lanes differ: no branch, but select(condition, a, b)

  /// These work lane by lane.
  friend Mask operator&&(const Mask& a, const Mask& b) { return Mask(a.lanes_ && b.lanes_); }
  friend Mask operator||(const Mask& a, const Mask& b) { return Mask(a.lanes_ || b.lanes_); }
  friend Mask operator!(const Mask& a) { return Mask(!a.lanes_); }

 private:
  xsimd::batch_bool<real> lanes_;
};

/// A vector of kLanes numbers; uninitialised unless given any.
class Simd {
 public:
  static constexpr std::size_t size = xsimd::batch<real>::size;  // numbers in a vector

  Simd() = default;
  /// Wraps a vector of xsimd.
  explicit Simd(const xsimd::batch<real>& lanes) : lanes_(lanes) {}
  const xsimd::batch<real>& batch() const { return lanes_; }

  /// Has this number in all lanes. Implicit, so that formulas read as they do for single numbers.
  template <class Number>
  requires std::is_arithmetic_v<Number> Simd(Number number)
      : lanes_(static_cast<real>(number)) {}  // NOLINT: implicit

  /// Reads or writes `size` numbers, which are aligned as a vector is, or need not be.
  static Simd load_aligned(const real* from) {
    return Simd(xsimd::batch<real>::load_aligned(from));
  }
  static Simd load_unaligned(const real* from) {
    return Simd(xsimd::batch<real>::load_unaligned(from));
  }
  void store_aligned(real* to) const { lanes_.store_aligned(to); }
  void store_unaligned(real* to) const { lanes_.store_unaligned(to); }

  /// These work lane by lane.
  friend Simd operator+(const Simd& a, const Simd& b) { return Simd(a.lanes_ + b.lanes_); }
  friend Simd operator-(const Simd& a, const Simd& b) { return Simd(a.lanes_ - b.lanes_); }
  friend Simd operator*(const Simd& a, const Simd& b) { return Simd(a.lanes_ * b.lanes_); }
  friend Simd operator/(const Simd& a, const Simd& b) { return Simd(a.lanes_ / b.lanes_); }
  friend Simd operator-(const Simd& a) { return Simd(-a.lanes_); }
  Simd& operator+=(const Simd& other) { return *this = *this + other; }
  Simd& operator-=(const Simd& other) { return *this = *this - other; }
  Simd& operator*=(const Simd& other) { return *this = *this * other; }
  Simd& operator/=(const Simd& other) { return *this = *this / other; }

  /// These compare lane by lane; all but != give false where one is NaN.
  friend Mask operator<(const Simd& a, const Simd& b) { return Mask(a.lanes_ < b.lanes_); }
  friend Mask operator<=(const Simd& a, const Simd& b) { return Mask(a.lanes_ <= b.lanes_); }
  friend Mask operator>(const Simd& a, const Simd& b) { return Mask(a.lanes_ > b.lanes_); }
  friend Mask operator>=(const Simd& a, const Simd& b) { return Mask(a.lanes_ >= b.lanes_); }
  friend Mask operator==(const Simd& a, const Simd& b) { return Mask(a.lanes_ == b.lanes_); }
  friend Mask operator!=(const Simd& a, const Simd& b) { return Mask(a.lanes_ != b.lanes_); }

 private:
  xsimd::batch<real> lanes_;
};

constexpr std::size_t kLanes = Simd::size;  // numbers in a vector

/// a in the lanes where the condition holds, b in the others.
inline Simd select(const Mask& condition, const Simd& a, const Simd& b) {
  return Simd(xsimd::select(condition.batch(), a.batch(), b.batch()));
}

/// The functions of <cmath>, called without a namespace, after `using std::sqrt;` in templates that
/// are for single numbers, too. With a NaN, `min` and `max` return either of the two. `fma` rounds
/// twice on processors without such an instruction.
inline Simd abs(const Simd& x) { return Simd(xsimd::abs(x.batch())); }
inline Simd sqrt(const Simd& x) { return Simd(xsimd::sqrt(x.batch())); }
inline Simd log1p(const Simd& x) { return Simd(xsimd::log1p(x.batch())); }
inline Simd tanh(const Simd& x) { return Simd(xsimd::tanh(x.batch())); }
inline Simd floor(const Simd& x) { return Simd(xsimd::floor(x.batch())); }
inline Simd ceil(const Simd& x) { return Simd(xsimd::ceil(x.batch())); }
inline Simd min(const Simd& a, const Simd& b) { return Simd(xsimd::min(a.batch(), b.batch())); }
inline Simd max(const Simd& a, const Simd& b) { return Simd(xsimd::max(a.batch(), b.batch())); }
inline Simd fma(const Simd& a, const Simd& b, const Simd& c) {
  return Simd(xsimd::fma(a.batch(), b.batch(), c.batch()));
}
inline Mask isnan(const Simd& x) { return Mask(xsimd::isnan(x.batch())); }

/// exp and expm1 of xsimd overflow too early, and exp is 0 instead of subnormal. Near these ends, x
/// is moved by a multiple of log 2, and the result is multiplied by the power of 2 for it. Beyond
/// them, where the result is 0 or ∞, xsimd is right: masks and saturated logits cost nothing.
inline Simd exp(const Simd& x) {
  constexpr bool kFloat = sizeof(real) == 4;
  constexpr real kFirst = kFloat ? -104 : -746, kLast = kFloat ? 89 : 710;  // beyond: 0 or ∞
  constexpr real kSafe = kFloat ? 87 : 708;  // up to here, xsimd is right
  // Whether the distance from the middle is like that of one of the ends: a single comparison.
  constexpr real kMiddle = (kFirst + kLast) / 2;
  constexpr real kFar = kLast - kMiddle, kNear = kSafe + kMiddle;
  const Mask may_need = abs(abs(x - kMiddle) - (kFar + kNear) / 2) < (kFar - kNear) / 2;
  if (xsimd::none(may_need.batch())) [[likely]]
    return Simd(xsimd::exp(x.batch()));
  constexpr real kPower = kFloat ? 64 : 512;
  constexpr real kHigh = kPower * static_cast<real>(0.693359375);  // log 2 = high + low
  constexpr real kLow = kPower * static_cast<real>(0.693147180559945309417L - 0.693359375L);
  const Mask at_ends = may_need && abs(x) > kSafe;
  const Mask is_low = x < 0;
  const Simd length = x - select(is_low, -kHigh, kHigh);  // exact
  const Simd low = select(is_low, -kLow, kLow);
  const Simd moved = length - low;
  const Simd rest = (length - moved) - low;  // what rounding took from `moved`
  const Simd y(xsimd::exp(select(at_ends, moved, x).batch()));
  const Simd factor = select(is_low, kFloat ? 0x1p-64 : 0x1p-512, kFloat ? 0x1p64 : 0x1p512);
  return select(at_ends, fma(y, rest, y) * factor, y);
}
inline Simd expm1(const Simd& x) {
  const Simd y(xsimd::expm1(x.batch()));
  const Mask at_end = x > 80 && x < (sizeof(real) == 4 ? 89 : 710);
  if (xsimd::none(at_end.batch())) [[likely]]
    return y;
  return select(at_end, exp(x), y);
}

/// log and erf of xsimd are wrong for subnormal doubles, and NaN where a power of a double
/// overflows.
inline Simd log(const Simd& x) {
  const Mask subnormal = x < std::numeric_limits<real>::min();
  const Simd y(xsimd::log(select(subnormal, x * 0x1p54, x).batch()));
  return y - select(subnormal, 54 * std::numbers::ln2, 0);
}
inline Simd erf(const Simd& x) {
  return Simd(xsimd::erf(select(x > 6, 6, select(x < -6, -6, x)).batch()));  // erf(6) rounds to 1
}

/// Calls a function of single numbers for each lane.
template <class F>
Simd map_lanes(const F& f, const Simd& x) {
  alignas(64) std::array<real, kLanes> lanes;
  x.store_aligned(lanes.data());
  for (real& lane : lanes) lane = f(lane);
  return Simd::load_aligned(lanes.data());
}

/// a · b + c, rounded once (in float without FMA, first to a double, which hardly ever shows).
inline Simd fma_exact(const Simd& a, const Simd& b, const Simd& c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return fma(a, b, c);
#else
  alignas(64) std::array<real, kLanes> x, y, z;
  a.store_aligned(x.data());
  b.store_aligned(y.data());
  c.store_aligned(z.data());
  for (std::size_t i = 0; i < kLanes; ++i) {
    if constexpr (std::is_same_v<real, float>)
      x[i] = static_cast<real>(double{x[i]} * y[i] + z[i]);
    else
      x[i] = std::fma(x[i], y[i], z[i]);
  }
  return Simd::load_aligned(x.data());
#endif
}

/// sin and cos are not those of xsimd, which reduce all arguments as the largest of them needs it:
/// the last bits of a lane would depend on the others.
inline Simd sin(const Simd& x) {
  return map_lanes([](real number) { return std::sin(number); }, x);
}
inline Simd cos(const Simd& x) {
  return map_lanes([](real number) { return std::cos(number); }, x);
}

/// What looks at all lanes together, for kernels. In a function of numbers, as those of `pointwise`
/// and update rules, it would be a fault: one element would decide for others.
namespace lanes {

/// Whether the answer is yes in all lanes.
inline bool all(const Mask& mask) { return xsimd::all(mask.batch()); }
/// The sum of the lanes.
inline real sum(const Simd& x) { return sum_of_lanes(x.batch()); }
/// The largest of the lanes.
inline real largest(const Simd& x) {
  alignas(64) std::array<real, kLanes> numbers;
  x.store_aligned(numbers.data());
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) numbers[i] = std::max(numbers[i], numbers[i + half]);
  return numbers[0];
}

}  // namespace lanes
}  // namespace ROWGRAD_VECTORS
}  // namespace rowgrad::kernels

namespace rowgrad {

using kernels::select;
using kernels::Simd;

/// Chooses between single numbers, so that a rule is written once.
inline double select(bool condition, double a, double b) { return condition ? a : b; }

}  // namespace rowgrad
