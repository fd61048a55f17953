#include "tests/test.hpp"
#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad::kernels {
namespace {

constexpr auto kExp = [](const Simd& x) { return exp(x); };
constexpr auto kProduct = [](const Simd& a, const Simd& b) { return a * b; };

TEST(Map, GivesAnEntryTheSameBitsWhateverItsPlace) {
  // Longer than two vectors, so that an entry is in a full vector for some counts and in the padded
  // last one for others.
  const std::size_t most = 3 * kLanes;
  const Tensor x = irregular({most});
  Tensor whole = empty({most});
  map_span(most, whole.data(), kExp, x.data());
  for (std::size_t count = 0; count <= most; ++count) {
    Tensor part = full({most}, -1);
    map_span(count, part.data(), kExp, x.data());
    EXPECT_EQ(std::memcmp(part.data(), whole.data(), count * sizeof(real)), 0) << count;
    for (std::size_t i = count; i < most; ++i)
      EXPECT_EQ(part.data()[i], -1) << "written behind the end of " << count;
    // The same entries again, not aligned with the vectors.
    for (std::size_t begin = 0; begin < kLanes && begin <= count; ++begin) {
      Tensor shifted = empty({most});
      map_span(count - begin, shifted.data(), kExp, x.data() + begin);
      EXPECT_EQ(std::memcmp(shifted.data(), whole.data() + begin, (count - begin) * sizeof(real)),
                0)
          << begin << " to " << count;
    }
  }
}

TEST(Map, FillsAPartialVectorWithNumbersThatAreThere) {
  // With unused lanes left as they are, a function might divide zero by zero or worse.
  const std::vector<real> x{7, 8, 9};
  for (std::size_t count = 1; count < std::min<std::size_t>(kLanes, 4); ++count) {
    std::vector<real> lanes(kLanes);
    load_partial(x.data(), count).store_unaligned(lanes.data());
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      EXPECT_EQ(lanes[lane], lane < count ? x[lane] : x[0]) << lane << " of " << count;
  }
}

TEST(Map, TakesSeveralTensorsAndMayWriteOverTheFirst) {
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{5, 7}, Shape{2, 0, 3}}) {
    const Tensor a = irregular(shape, 1);
    const Tensor b = irregular(shape, 2);
    Tensor expected = a;
    for (std::size_t i = 0; i < a.size(); ++i) expected.data()[i] = a.data()[i] * b.data()[i];
    EXPECT_EQ(map(kProduct, a, b), expected);
    Tensor reused = a;
    const real* memory = reused.data();
    const Tensor result = map_in_place(kProduct, std::move(reused), b);
    EXPECT_EQ(result, expected);
    if (a.dimension() > 0) {
      EXPECT_EQ(result.data(), memory);
    }
  }
}

// --- The vector functions that ops use ----------------------------------------------------------

struct Range {
  double low;
  double high;
  bool logarithmic = false;  // as many points in each power of two
};

constexpr bool kDouble = sizeof(real) == 8;
constexpr std::size_t kPoints = 1 << 17;

Tensor points(const Range& range) {
  Tensor x = empty({kPoints});
  for (std::size_t i = 0; i < kPoints; ++i) {
    const double t = (static_cast<double>(i) + 0.5) / kPoints;
    x.data()[i] = static_cast<real>(
        range.logarithmic
            ? std::exp2(std::log2(range.low) + t * (std::log2(range.high) - std::log2(range.low)))
            : range.low + t * (range.high - range.low));
  }
  return x;
}

// The largest error, relative to the true value in units of the machine epsilon.
template <class F, class Reference>
double worst_error(const Range& range, const F& function, const Reference& reference) {
  const Tensor x = points(range);
  const Tensor y = map(function, x);
  long double worst = 0;
  for (std::size_t i = 0; i < kPoints; ++i) {
    const long double expected = reference(static_cast<long double>(x.data()[i]));
    const long double error = std::abs((y.data()[i] - expected) / expected);
    // Written so that NaN counts as the worst.
    if (!(error <= worst)) worst = error;
  }
  return static_cast<double>(worst / kEpsilon);
}

// The bounds are what xsimd's polynomials promise: about two units in the last place, of which one
// is at most an epsilon. Its erf in double is the exception (32 epsilon at |x| = 2.2), still four
// digits better than parity with PyTorch requires.
TEST(VectorFunctions, AreAccurateToTheLastDigitsInTheirUsefulRange) {
  const double largest_exponent = kDouble ? 708 : 87;
  const auto exp_of = [](long double v) { return std::exp(v); };
  for (const Range& range : {Range{-largest_exponent, largest_exponent}, Range{-1, 1}})
    EXPECT_LE(worst_error(range, kExp, exp_of), 2) << "exp " << range.low;

  const auto log_simd = [](const Simd& v) { return log(v); };
  const auto log_of = [](long double v) { return std::log(v); };
  for (const Range& range :
       {Range{std::numeric_limits<real>::min(), std::numeric_limits<real>::max(), true},
        Range{std::numeric_limits<real>::denorm_min(), std::numeric_limits<real>::min(), true},
        Range{0.5, 2}, Range{0.99, 1.01}})
    EXPECT_LE(worst_error(range, log_simd, log_of), 2) << "log " << range.low;

  const auto tanh_simd = [](const Simd& v) { return tanh(v); };
  const auto tanh_of = [](long double v) { return std::tanh(v); };
  for (const Range& range : {Range{-20, 20}, Range{-1, 1}, Range{1e-30, 1, true}})
    EXPECT_LE(worst_error(range, tanh_simd, tanh_of), 2) << "tanh " << range.low;

  const auto erf_simd = [](const Simd& v) { return erf(v); };
  const auto erf_of = [](long double v) { return std::erf(v); };
  for (const Range& range : {Range{-6, 6}, Range{-1, 1}, Range{1e-30, 1, true}})
    EXPECT_LE(worst_error(range, erf_simd, erf_of), kDouble ? 40 : 2) << "erf " << range.low;
}

TEST(VectorFunctions, GoToTheirLimitsOutsideIt) {
  constexpr real kMost = std::numeric_limits<real>::max();
  const Tensor x = tensor({6}, {-kInfinity, -kMost, -10000, 10000, kMost, kInfinity});
  EXPECT_EQ(map(kExp, x), tensor({6}, {0, 0, 0, kInfinity, kInfinity, kInfinity}));
  EXPECT_EQ(map([](const Simd& v) { return tanh(v); }, x), tensor({6}, {-1, -1, -1, 1, 1, 1}));
  EXPECT_EQ(map([](const Simd& v) { return erf(v); }, x), tensor({6}, {-1, -1, -1, 1, 1, 1}));
  const auto log_simd = [](const Simd& v) { return log(v); };
  EXPECT_EQ(map(log_simd, tensor({4}, {-0.0, 0, 1, kInfinity})),
            tensor({4}, {-kInfinity, -kInfinity, 0, kInfinity}));
  EXPECT_TRUE(std::isnan(map(log_simd, full({1}, -1)).data()[0]));
}

TEST(VectorFunctions, PassNotANumberOn) {
  const Tensor nan = full({1}, std::numeric_limits<real>::quiet_NaN());
  EXPECT_TRUE(std::isnan(map(kExp, nan).data()[0]));
  EXPECT_TRUE(std::isnan(map([](const Simd& v) { return log(v); }, nan).data()[0]));
  EXPECT_TRUE(std::isnan(map([](const Simd& v) { return tanh(v); }, nan).data()[0]));
  EXPECT_TRUE(std::isnan(map([](const Simd& v) { return erf(v); }, nan).data()[0]));
}

}  // namespace
}  // namespace rowgrad::kernels
