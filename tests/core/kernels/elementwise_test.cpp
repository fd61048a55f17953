#include "tests/test.hpp"
#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad::kernels {
namespace {

TEST(Map, GivesTheSameBitsAtAnyPosition) {
  // Three vectors, so that an element is in a full vector for some counts, and in the padded last
  // vector for others.
  const std::size_t most = 3 * kLanes;
  constexpr auto f = [](const Simd& v) { return exp(v); };
  const Tensor x = irregular({most});
  Tensor whole = empty({most});
  map_span(most, whole.data(), f, x.data());
  for (std::size_t count = 0; count <= most; ++count) {
    Tensor part = full({most}, -1);
    map_span(count, part.data(), f, x.data());
    EXPECT_EQ(std::memcmp(part.data(), whole.data(), count * sizeof(real)), 0) << count;
    for (std::size_t i = count; i < most; ++i)
      EXPECT_EQ(part.data()[i], -1) << "written beyond the end of " << count;
    // Computes the same elements at other offsets.
    for (std::size_t begin = 0; begin < kLanes && begin <= count; ++begin) {
      Tensor shifted = empty({most});
      map_span(count - begin, shifted.data(), f, x.data() + begin);
      EXPECT_EQ(std::memcmp(shifted.data(), whole.data() + begin, (count - begin) * sizeof(real)),
                0)
          << begin << " to " << count;
    }
  }
}

TEST(Map, FillsPartialVectorsWithTheFirstValue) {
  // With uninitialized lanes, a function might divide zero by zero.
  const std::vector<real> x{7, 8, 9};
  for (std::size_t count = 1; count < std::min<std::size_t>(kLanes, 4); ++count) {
    std::vector<real> lanes(kLanes);
    load_partial(x.data(), count).store_unaligned(lanes.data());
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      EXPECT_EQ(lanes[lane], lane < count ? x[lane] : x[0]) << lane << " of " << count;
  }
}

// --- The vector functions that ops use ----------------------------------------------------------

struct Range {
  double low;
  double high;
  bool logarithmic = false;  // true: the same number of points in each power of two
};

struct VectorFunction {
  const char* name;
  Simd (*of_vector)(const Simd&);
  long double (*of_scalar)(long double);
  std::vector<Range> ranges;
  double bound = 2;
};

constexpr bool kDouble = sizeof(real) == 8;
constexpr double kLargestExponent = kDouble ? 708 : 87;
constexpr real kMin = std::numeric_limits<real>::min(), kMax = std::numeric_limits<real>::max();
constexpr Range kNearZero{1e-30, 1, true};

// Most bounds are two epsilon, because xsimd's polynomials are accurate to about two units in the
// last place, each at most an epsilon. In double, erf has an error of 32 epsilon at |x| = 2.2,
// which is still four digits better than comparisons with PyTorch require.
const VectorFunction kFunctions[] = {
    {"exp", exp, std::exp, {{-kLargestExponent, kLargestExponent}, {-1, 1}}},
    {"log",
     log,
     std::log,
     {{kMin, kMax, true},
      {std::numeric_limits<real>::denorm_min(), kMin, true},
      {0.5, 2},
      {0.99, 1.01}}},
    {"tanh", tanh, std::tanh, {{-20, 20}, {-1, 1}, kNearZero}},
    {"erf", erf, std::erf, {{-6, 6}, {-1, 1}, kNearZero}, kDouble ? 40 : 2},
    {"expm1", expm1, std::expm1, {{-2, 15}, kNearZero}},
    {"log1p", log1p, std::log1p, {{-0.9, 15}, kNearZero}},
    {"sin", sin, std::sin, {{-3, 3}, kNearZero}},
    {"cos", cos, std::cos, {{-1.5, 1.5}, {2, 4}}},
    {"abs", abs, std::abs, {{-3, 3}}, 0},
    {"sqrt", sqrt, std::sqrt, {{kMin, kMax, true}}, 0.5},
    {"floor", floor, std::floor, {{-9, -0.1}, {1, 9}}, 0},
    {"ceil", ceil, std::ceil, {{-9, -1}, {0.1, 9}}, 0},
    {"round", round, std::nearbyint, {{-9, -0.6}, {0.6, 9}}, 0},
    {"trunc", trunc, std::trunc, {{-9, -1}, {1, 9}}, 0}};

// Returns the largest relative error in a range, in units of the machine epsilon.
double worst_error(const VectorFunction& function, const Range& range) {
  constexpr std::size_t kPoints = 1 << 17;
  Tensor x = empty({kPoints});
  for (std::size_t i = 0; i < kPoints; ++i) {
    const double t = (static_cast<double>(i) + 0.5) / kPoints;
    x.data()[i] = static_cast<real>(
        range.logarithmic
            ? std::exp2(std::log2(range.low) + t * (std::log2(range.high) - std::log2(range.low)))
            : range.low + t * (range.high - range.low));
  }
  const Tensor y = map(function.of_vector, x);
  long double worst = 0;
  for (std::size_t i = 0; i < kPoints; ++i) {
    const long double expected = function.of_scalar(x.data()[i]);
    const long double error = std::abs((y.data()[i] - expected) / expected);
    if (std::isnan(error)) return static_cast<double>(error);  // fails any bound
    worst = std::max(worst, error);
  }
  return static_cast<double>(worst / kEpsilon);
}

TEST(VectorFunctions, AreAccurateToTheLastDigits) {
  for (const VectorFunction& function : kFunctions)
    for (const Range& range : function.ranges)
      EXPECT_LE(worst_error(function, range), function.bound) << function.name << ' ' << range.low;
}

}  // namespace
}  // namespace rowgrad::kernels
