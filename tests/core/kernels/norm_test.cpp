#include "tests/test.hpp"
#include <rowgrad/core/kernels/norm.hpp>

namespace rowgrad::kernels {
namespace {

constexpr double kOrders[] = {1, 2, HUGE_VAL};

std::span<const real> values_of(const Tensor& x) { return {x.data(), x.size()}; }

TEST(Norm, SumsAnyNumberOfValues) {
  for (const std::size_t count : {0, 1, 2, 15, 16, 17, 1000, 4095, 4096, 4097, 40001}) {
    const Tensor x = irregular({count});
    long double sum = 0, squares = 0;
    for (const real value : x) {
      sum += std::abs<long double>(value);
      squares += std::pow<long double>(value, 2);
    }
    // Each term is rounded at most count / 16 + 26 times, by half an epsilon. All terms are
    // positive, so the bound holds for the sum.
    const double bound =
        (static_cast<double>(count) / 16 + 26) * std::numeric_limits<double>::epsilon() / 2;
    const double expected = static_cast<double>(sum);
    EXPECT_NEAR(norm(values_of(x), 1), expected, bound * expected) << count;
    const double root = static_cast<double>(std::sqrt(squares));
    EXPECT_NEAR(norm(values_of(x), 2), root, bound * root) << count;
  }
}

TEST(Norm, HandlesSquaresOutsideTheRangeOfFloat) {
  using Limits = std::numeric_limits<real>;
  for (const real value : {Limits::max() / 64, Limits::min() * 64, real{0x1p100F}})
    EXPECT_NEAR(norm(values_of(full({4}, value)), 2) / value, 2, 1e-13);
}

// The sizes of a table, and the ids of its nonzero rows.
struct Table {
  std::size_t rows, width;
  Ids32 ids;
};

TEST(Norm, OfRowsEqualsNormOfTheWholeTable) {
  Ids32 every_third;
  for (std::int32_t row = 0; row < 3000; row += 3) every_third.push_back(row);
  const Table tables[] = {{5, 3, {}},
                          {5, 3, {4}},
                          {1000, 1, {0, 1, 17, 999}},
                          {700, 13, {0, 5, 6, 7, 314, 315, 699}},
                          {40, 5000, {0, 1, 20, 39}},
                          {9, 4096, {0, 3, 4, 8}},
                          {3, 70000, {0, 2}},
                          {3000, 61, every_third},
                          {6, 0, {1, 5}}};
  for (const auto& [rows, width, ids] : tables) {
    const Tensor values = irregular({ids.size(), width});
    Tensor table = zeros({rows, width});
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::copy_n(values.data() + i * width, width,
                  table.data() + static_cast<std::size_t>(ids[i]) * width);
    for (const double p : kOrders) {
      const auto run = [&, &ids = ids, rows = rows, width = width](int threads, bool whole) {
        const Threads scope(threads);
        const RowSpan some{values.data(), ids.size(), width};
        const RowSpan all{table.data(), rows, width};
        return norm({whole ? &all : &some, 1}, p);
      };
      const double expected = run(1, true);
      EXPECT_EQ(expected == 0, ids.empty() || width == 0);
      EXPECT_EQ(run(1, false), expected) << rows << " rows of " << width << ", p " << p;
      for (const int threads : {2, 3})
        for (const bool whole : {false, true})
          EXPECT_EQ(run(threads, whole), expected)
              << rows << " rows of " << width << ", p " << p << ", " << threads << " threads";
    }
  }
}

TEST(Distance, IsAccurateForAnyWidthAndMagnitude) {
  const double precision = 8 * static_cast<double>(std::numeric_limits<real>::epsilon());
  for (std::size_t width = 0; width <= 70; ++width)
    for (const real unit : {real{1}, real{1e-30F}, real{1e30F}})  // squares can leave float's range
      for (const double factor : {1.0, 0.75, 0.0}) {
        const Tensor a = irregular({width}, 1) * unit, b = irregular({width}, 2) * unit;
        long double squares = 0, of_a = 0;
        for (std::size_t i = 0; i < width; ++i) {
          const long double x = a(i), y = b(i);
          squares += (x - factor * y) * (x - factor * y);
          of_a += x * x;
        }
        const auto expected = static_cast<double>(std::sqrt(squares));
        EXPECT_NEAR(distance(width, a.data(), b.data(), factor), expected, precision * expected)
            << width << ' ' << unit << ' ' << factor;
        const auto of = static_cast<double>(std::sqrt(of_a));
        EXPECT_NEAR(length(width, a.data()), of, precision * of) << width << ' ' << unit;
        EXPECT_EQ(distance(width, a.data(), a.data()), 0);
      }
}

TEST(LargestMagnitude, IsFoundAtAnyPosition) {
  EXPECT_EQ(max_abs({}), 0);
  const std::size_t count = 100'003;
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    for (const std::size_t position : {std::size_t{0}, count / 2, count - 1}) {
      Tensor x = irregular({count});
      x(position) = -3;
      EXPECT_EQ(max_abs(values_of(x)), 3);
      x(count / 3) = -kInfinity;
      EXPECT_EQ(max_abs(values_of(x)), kInfinity);
      x(position) = -kNaN;
      EXPECT_TRUE(std::isnan(max_abs(values_of(x))));
    }
  }
}

TEST(AllFinite, DetectsOneNonFiniteValueAtAnyPosition) {
  const real largest = std::numeric_limits<real>::max();
  for (const std::size_t count : {0, 1, 3, 8, 17, 100'000}) {
    std::vector<real> values(count, -largest);  // the sum of two overflows
    EXPECT_TRUE(kernels::all_finite(values)) << count;
    for (std::size_t i = 0; i < count; i += 1 + count / 30)
      for (const real wrong : {kNaN, kInfinity, -kInfinity}) {
        values[i] = wrong;
        EXPECT_FALSE(kernels::all_finite(values)) << count << ", at " << i;
        values[i] = largest;
      }
  }
}

}  // namespace
}  // namespace rowgrad::kernels
