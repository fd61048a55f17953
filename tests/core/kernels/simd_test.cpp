#include "tests/test.hpp"
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/simd.hpp>

namespace rowgrad::kernels {
namespace {

// No branch compiles that would decide for all lanes, on any processor.
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
static_assert(Branches<double> && !Branches<Simd>);
static_assert(DecidesAtOnce<bool> && !DecidesAtOnce<Mask> && !DecidesAtOnce<Simd>);
static_assert(!std::is_constructible_v<bool, Mask> && !std::is_convertible_v<Mask, bool>);
static_assert(!std::is_constructible_v<bool, Simd> && !std::is_constructible_v<real, Simd>);
static_assert(!std::is_constructible_v<Simd, Mask>);
static_assert(std::is_trivially_copyable_v<Simd> && sizeof(Simd) == kLanes * sizeof(real));

// f of numbers, in vectors of which other lanes have other numbers.
std::vector<real> mapped(const auto& f, const std::vector<real>& numbers) {
  std::vector<real> result(numbers.size());
  map_span(numbers.size(), result.data(), f, numbers.data());
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
  EXPECT_EQ(rowgrad::select(2.0 > 1, 3, 4), 3);  // single numbers
  EXPECT_EQ(rowgrad::select(false, 3, 4.5), 4.5);
}

TEST(Simd, HasTheFunctionsOfTheStandardLibrary) {
  struct Function {
    std::string name;
    Simd (*of_vector)(const Simd&);
    real (*of_number)(real);
  };
  const std::vector<Function> functions{
      {"abs", abs, std::abs},       {"sqrt", sqrt, std::sqrt}, {"exp", exp, std::exp},
      {"expm1", expm1, std::expm1}, {"log", log, std::log},    {"log1p", log1p, std::log1p},
      {"tanh", tanh, std::tanh},    {"erf", erf, std::erf},    {"floor", floor, std::floor},
      {"ceil", ceil, std::ceil},    {"sin", sin, std::sin},    {"cos", cos, std::cos},
  };
  const std::vector<real> x{real{-0.9F}, real{0.3F}, 1,           real{2.5F}, real{-0.01F},
                            4,           9,          real{1e-6F}, 15,         real{0.7F}};
  for (const Function& function : functions) {
    const std::vector<real> y = mapped(function.of_vector, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const real expected = function.of_number(x[i]);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(y[i])) << function.name << ' ' << x[i];
      else  // as in elementwise_test: two units, and 40 for erf in double
        EXPECT_NEAR(y[i], expected, 40 * kEpsilon * std::abs(expected)) << function.name << x[i];
    }
  }
  EXPECT_EQ(mapped([](Simd v) { return min(v, 1) + max(v, 2) * fma(v, 3, 4); }, {0, 5}),
            (std::vector<real>{8, 96}));
  EXPECT_EQ(mapped([](Simd v) { return select(isnan(v), 1, 0); },
                   {std::numeric_limits<real>::quiet_NaN(), kInfinity}),
            (std::vector<real>{1, 0}));
}

// A function of vectors as one of arrays.
std::function<void(std::span<real* const>)> by_vectors(
    const std::function<void(std::span<Simd>)>& change) {
  return [change](std::span<real* const> arrays) {
    for (std::size_t i = 0; i < kCheckedNumbers; i += kLanes) {
      std::vector<Simd> vectors;
      for (const real* array : arrays) vectors.push_back(Simd::load_unaligned(array + i));
      change(vectors);
      for (std::size_t k = 0; k < arrays.size(); ++k) vectors[k].store_unaligned(arrays[k] + i);
    }
  };
}

// Whether another lane holds a large number decides how the processor's libraries reduce a small
// one: the bits must not show it.
TEST(Simd, ComputesEachLaneAloneForAllFunctions) {
  const std::array<std::string_view, 1> names{"y"};
  for (Simd (*f)(const Simd&) :
       {abs, sqrt, exp, expm1, log, log1p, tanh, erf, floor, ceil, sin, cos})
    EXPECT_NO_THROW(
        check_lanes("f", names, by_vectors([f](std::span<Simd> x) { x[0] = f(x[0]); })));
}

TEST(CheckLanes, NamesALaneThatDependsOnOthers) {
  const std::array<std::string_view, 2> names{"the number", "the gradient"};
  const auto error_with = [&](const auto& change) {
    return error_of<std::logic_error>([&] { check_lanes("f", names, by_vectors(change)); });
  };
  EXPECT_EQ(error_with([](std::span<Simd> x) { x[0] = select(x[1] > 0, x[0], -x[0]); }),
            "no error");
  // One lane decides for all.
  EXPECT_EQ(error_with([](std::span<Simd> x) { x[0] = all(x[1] > 0) ? x[1] : 2 * x[1]; }),
            "f: the number in lane 0 of a vector is 2, expected 1, which comes of the same numbers "
            "[-2, 1] in all lanes: a lane must not depend on others");
  // A reduction, and a neighbour.
  EXPECT_TRUE(error_with([](std::span<Simd> x) {
                x[0] = x[0] / sum_of_lanes(abs(x[0]));
              }).starts_with("f: the number in lane 0 of a vector is "));
  EXPECT_TRUE(error_with([](std::span<Simd> x) {
                std::array<real, kLanes> lanes;
                x[1].store_unaligned(lanes.data());
                std::swap(lanes[0], lanes[1]);
                x[1] = Simd::load_unaligned(lanes.data());
              }).starts_with("f: the gradient in lane 0 of a vector is "));
}

}  // namespace
}  // namespace rowgrad::kernels
