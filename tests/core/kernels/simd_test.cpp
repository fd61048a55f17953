#include "tests/test.hpp"
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/simd.hpp>

namespace rowgrad::kernels {
namespace {

// A branch that would decide for all lanes does not compile, on any CPU.
template <class Number>
concept Branches = requires(Number x) {
  x > 0 ? x : -x;
}
|| requires(Number x) {
  [](Number y) -> decltype(!(y > 0) ? 1 : 2) { return 1; }(x);
};
template <class Condition>
concept DecidesAtOnce = requires(Condition c) {
  static_cast<bool>(c);
}
|| requires(Condition c) { bool(c); }
|| requires(Condition c) { c ? 1 : 2; }
|| requires(Condition c) { c && true; };
// Operations across lanes do not compile outside the namespace `lanes`.
template <class Number>
concept LooksAtOthers = requires(Number x) {
  all(x > 0);
}
|| requires(Number x) { sum(x); }
|| requires(Number x) { largest(x); };
static_assert(!LooksAtOthers<Simd>);
static_assert(Branches<double> && !Branches<Simd>);
static_assert(DecidesAtOnce<bool> && !DecidesAtOnce<Mask> && !DecidesAtOnce<Simd>);
static_assert(!std::is_constructible_v<bool, Mask> && !std::is_convertible_v<Mask, bool>);
static_assert(!std::is_constructible_v<bool, Simd> && !std::is_constructible_v<real, Simd>);
static_assert(!std::is_constructible_v<Simd, Mask>);
static_assert(std::is_trivially_copyable_v<Simd> && sizeof(Simd) == kLanes * sizeof(real));

// Applies f to the values, one vector at a time.
std::vector<real> mapped(const auto& f, const std::vector<real>& values) {
  std::vector<real> result(values.size());
  map_span(values.size(), result.data(), f, values.data());
  return result;
}

TEST(Simd, SelectsForEachLane) {
  const std::vector<real> x{-2, -1, 1, 2, 0, -3, 4, 5, -6};
  EXPECT_EQ(mapped([](Simd v) { return select(v > 0, v, 2 * v); }, x),
            (std::vector<real>{-4, -2, 1, 2, 0, -6, 4, 5, -12}));
  EXPECT_EQ(mapped([](Simd v) { return select(v >= 4 || v <= -3, 1, 0); }, x),
            (std::vector<real>{0, 0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(mapped([](Simd v) { return select(!(v < 0) && v != 0, v, -1); }, x),
            (std::vector<real>{-1, -1, 1, 2, -1, -1, 4, 5, -1}));
  EXPECT_EQ(mapped([](Simd v) { return select(v == 0, 7, v - 1); }, {0, 1}),
            (std::vector<real>{7, 0}));
  EXPECT_EQ(mapped([](Simd v) { return min(v, 1) + max(v, 2) * fma(v, 3, 4); }, {0, 5}),
            (std::vector<real>{8, 96}));
  EXPECT_EQ(mapped([](Simd v) { return select(isnan(v), 1, 0); }, {kNaN, kInfinity}),
            (std::vector<real>{1, 0}));
  EXPECT_EQ(mapped([](Simd v) { return select(v != v, 1, select(v == v, 2, 3)); }, {kNaN, 0}),
            (std::vector<real>{1, 2}));
  EXPECT_EQ(rowgrad::select(2.0 > 1, 3, 4), 3);  // scalars
  EXPECT_EQ(rowgrad::select(false, 3, 4.5), 4.5);
}

// A vector library may reduce the arguments of all lanes as the largest one requires. This must not
// change the bits of the other lanes.
TEST(Simd, ComputesEachLaneIndependently) {
  const std::vector<real> values{-2,        1,    0.5,  -0.25, 3,  0,          -1e4F, 1e-3F, 40,
                                 kInfinity, -720, -100, -95,   88, -kInfinity, 200,   kNaN};
  for (Simd (*f)(const Simd&) : {abs, sqrt, exp, exp2, expm1, log, log2, log10, log1p, tanh, erf,
                                 floor, ceil, round, trunc, sin, cos, tan})
    for (const real value : values)
      for (const real other : values) {
        std::vector<real> mixed(kLanes, other);
        mixed[kLanes / 2] = value;
        const real alone = mapped(f, std::vector<real>(kLanes, value))[0];
        const real among = mapped(f, mixed)[kLanes / 2];
        EXPECT_TRUE(same(among, alone)) << value << " among " << other;
      }
}

// From subnormal to the largest results, the error is at most two epsilon and one subnormal step.
TEST(Simd, ComputesExponentialsUpToTheEndsOfTheRange) {
  constexpr bool kFloat = sizeof(real) == 4;
  const double first = kFloat ? -106 : -748, last = kFloat ? 88.8 : 709.9;
  std::vector<real> x{-kInfinity, -std::numeric_limits<real>::max(), 0,
                      std::numeric_limits<real>::max(), kInfinity};
  for (int i = 0; i <= 20000; ++i)
    x.push_back(static_cast<real>(first + (last - first) * i / 20000));
  for (int i = 0; i <= 1000; ++i) x.push_back(static_cast<real>(last - 1e-3 * i));
  const auto expect_exact = [&](const std::vector<real>& got, long double (*exact)(long double)) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double wanted = exact(x[i]);
      if (std::isinf(static_cast<real>(wanted)))
        ASSERT_EQ(got[i], kInfinity) << x[i];
      else
        ASSERT_NEAR(got[i], static_cast<double>(wanted),
                    2 * kEpsilon * std::abs(static_cast<double>(wanted)) +
                        static_cast<double>(std::numeric_limits<real>::denorm_min()))
            << x[i];
    }
  };
  expect_exact(mapped([](Simd v) { return exp(v); }, x), std::exp);
  expect_exact(mapped([](Simd v) { return expm1(v); }, x), std::expm1);
}

}  // namespace
}  // namespace rowgrad::kernels
