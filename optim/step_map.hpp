#pragma once

// Linear maps of a value and its optimizer state: matrices for one or many steps.

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// An entry of a StepMap. Its range is far wider than the range of `real`, because a tiny
/// coefficient times a large value may be an ordinary value.
using Coefficient = std::conditional_t<std::is_same_v<real, float>, double, long double>;

/// The largest factor by which values may grow, even temporarily, in steps with a closed form.
constexpr Coefficient kMaxGrowth = 1 << 24;

/// A linear map of N values.
template <std::size_t N>
using StepMap = std::array<std::array<Coefficient, N>, N>;

/// Returns the identity map.
template <std::size_t N>
StepMap<N> identity() {
  StepMap<N> result{};
  for (std::size_t i = 0; i < N; ++i) result[i][i] = 1;
  return result;
}

/// Returns the map that applies `before`, then `after`. Zero coefficients are skipped, so that 0 ·
/// ∞ does not give NaN. Other products do not underflow to 0, so that infinity stays infinite. Not
/// inlined, so that the bits do not depend on the caller.
template <std::size_t N>
[[gnu::noinline]] StepMap<N> compose(const StepMap<N>& after, const StepMap<N>& before) {
  constexpr Coefficient kMin = std::numeric_limits<Coefficient>::min();
  StepMap<N> result{};
  for (std::size_t i = 0; i < N; ++i)
    for (std::size_t k = 0; k < N; ++k)
      if (after[i][k] != 0)
        for (std::size_t j = 0; j < N; ++j)
          if (before[k][j] != 0) {
            const Coefficient product = after[i][k] * before[k][j];
            result[i][j] += std::abs(product) < kMin ? std::copysign(kMin, product) : product;
          }
  return result;
}

/// Returns true if applying `map` thousands of times enlarges values at most kMaxGrowth-fold.
/// Otherwise, values may overflow in between, which the composed map would not show.
template <std::size_t N>
bool is_bounded(StepMap<N> map) {
  for (int doubling = 0; doubling <= 12; ++doubling) {
    for (const auto& row : map)
      for (const Coefficient coefficient : row)
        if (!(std::abs(coefficient) <= kMaxGrowth)) return false;
    map = compose(map, map);
  }
  return true;
}

}  // namespace rowgrad
