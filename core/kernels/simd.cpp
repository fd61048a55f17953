#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/kernels/simd.hpp>

namespace rowgrad::kernels {
namespace {

constexpr std::array<real, 12> kNumbers{
    real{-2},     real{1},     real{0.5F},
    real{-0.25F}, real{3},     std::numeric_limits<real>::quiet_NaN(),
    real{0},      real{-1e4F}, real{1e-3F},
    real{40},     real{-1},    real{2}};

// Number `row` of vector k. A stride of its own for each vector gives it other neighbours: one that
// has no divisor in common with the length, so that each vector gets all numbers.
real number_at(std::size_t row, std::size_t k) {
  constexpr std::array<std::size_t, 4> kStrides{1, 5, 7, 11};
  return kNumbers[(row * kStrides[k % kStrides.size()] + k) % kNumbers.size()];
}

using Lanes = std::array<real, kCheckedNumbers>;

}  // namespace

void check_lanes(std::string_view owner, std::span<const std::string_view> names,
                 const std::function<void(std::span<real* const>)>& change) {
  // What the function makes of rows a and b of the numbers, in turns.
  const auto results = [&](std::size_t a, std::size_t b) {
    std::vector<Lanes> all(names.size());
    std::vector<real*> arrays(names.size());
    for (std::size_t k = 0; k < names.size(); ++k) {
      for (std::size_t i = 0; i < all[k].size(); ++i) all[k][i] = number_at(i % 2 == 0 ? a : b, k);
      arrays[k] = all[k].data();
    }
    change(arrays);
    return all;
  };
  std::vector<std::vector<Lanes>> alone;
  for (std::size_t row = 0; row < kNumbers.size(); ++row) alone.push_back(results(row, row));
  for (std::size_t a = 0; a < kNumbers.size(); ++a)
    for (std::size_t b = 0; b < kNumbers.size(); ++b) {
      const std::vector<Lanes> mixed = results(a, b);
      for (std::size_t k = 0; k < names.size(); ++k)
        for (std::size_t i = 0; i < kCheckedNumbers; ++i) {
          const std::size_t row = i % 2 == 0 ? a : b;
          const real got = mixed[k][i], expected = alone[row][k][i];
          if (got == expected || (std::isnan(got) && std::isnan(expected))) continue;
          std::vector<real> numbers;
          for (std::size_t input = 0; input < names.size(); ++input)
            numbers.push_back(number_at(row, input));
          throw std::logic_error(concat(owner, ": ", names[k], " in lane ", i, " of a vector is ",
                                        got, ", expected ", expected,
                                        ", which comes of the same numbers ", bracketed(numbers),
                                        " in all lanes: a lane must not depend on others"));
        }
    }
}

}  // namespace rowgrad::kernels
