#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/kernels/parallel.hpp>

namespace rowgrad::kernels {
namespace {

// A sum of squares below this may lack some that underflowed.
constexpr double kSmallest = std::numeric_limits<double>::min() * 0x1p64;

// Σ f(x) of a row, in sums side by side, of which the compiler makes vectors.
double sum_row(const real* x, std::size_t width, const auto& f) {
  std::array<double, 16> sums{};
  for (; width >= sums.size(); x += sums.size(), width -= sums.size())
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += f(static_cast<double>(x[j]));
  for (std::size_t j = 0; j < width; ++j) sums[j] += f(static_cast<double>(x[j]));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

constexpr auto absolute = [](double x) { return std::abs(x); };
constexpr auto square = [](double x) { return x * x; };

double sum_of(std::span<const Rows> arrays, const auto& f) {
  double total = 0;
  std::array<double, 1024> sums;  // of so many rows at a time: a step needs no memory for them
  for (const auto& [values, rows, width] : arrays)
    for (std::size_t first = 0; first < rows; first += sums.size()) {
      const std::size_t count = std::min(sums.size(), rows - first);
      parallel_for(
          count, row_grain(width),
          [&, from = values + first * width, width = width](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) sums[i] = sum_row(from + i * width, width, f);
          });
      for (std::size_t i = 0; i < count; ++i) total += sums[i];
    }
  return total;
}

double largest_of(std::span<const Rows> arrays) {
  double largest = 0;
  for (const auto& [values, rows, width] : arrays) {
    const double magnitude = largest_magnitude({values, rows * width});
    if (!(magnitude <= largest)) largest = magnitude;
    if (std::isnan(largest)) break;
  }
  return largest;
}

}  // namespace

double norm(std::span<const Rows> arrays, double p) {
  if (std::isinf(p)) return largest_of(arrays);
  if (p == 1) return sum_of(arrays, absolute);
  const double total = sum_of(arrays, square);
  if (total >= kSmallest && std::isfinite(total)) return std::sqrt(total);
  // In units of the largest number, the sum is between 1 and how many there are.
  const double unit = largest_of(arrays);
  if (unit == 0 || !std::isfinite(unit)) return unit;
  return unit * std::sqrt(sum_of(arrays, [unit](double x) { return square(x / unit); }));
}

double norm(std::span<const real> row, double p) {
  const Rows only{row.data(), 1, row.size()};
  return norm({&only, 1}, p);
}

double largest_magnitude(std::span<const real> values) {
  // The bits of nonnegative numbers are ordered like the numbers, with NaN above infinity.
  using Bits = std::conditional_t<sizeof(real) == 8, std::uint64_t, std::uint32_t>;
  std::vector<Bits> largest(std::max<std::size_t>(1, range_count(values.size(), kGrainNumbers)));
  parallel_for(values.size(), kGrainNumbers,
               [&](std::size_t begin, std::size_t end, std::size_t range) {
                 Bits bits = 0;
                 for (const real value : values.subspan(begin, end - begin))
                   bits = std::max(bits, std::bit_cast<Bits>(std::abs(value)));
                 largest[range] = bits;
               });
  return std::bit_cast<real>(std::ranges::max(largest));
}

void norm_rows(const real* x, std::size_t rows, std::size_t width, real* norms) {
  parallel_for(rows, row_grain(width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const double total = sum_row(x + i * width, width, square);
      const bool is_exact = total >= kSmallest && std::isfinite(total);
      norms[i] = static_cast<real>(is_exact ? std::sqrt(total) : norm({x + i * width, width}, 2));
    }
  });
}

}  // namespace rowgrad::kernels
