#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/kernels/parallel.hpp>

namespace rowgrad::kernels {
namespace {

// If a sum of squares is below this, squares may have underflowed.
constexpr double kSmallest = std::numeric_limits<double>::min() * 0x1p64;

constexpr std::size_t kSums = 16;      // parallel sums, so that the compiler vectorizes the loop
constexpr std::size_t kPiece = 4096;   // values of a row that are summed at a time
constexpr std::size_t kPieces = 1024;  // pieces whose sums fit on the stack

// Returns Σ f(x) over a piece.
double sum_piece(const real* x, std::size_t count, const auto& f) {
  double total = 0;
  if (count >= kSums) {
    std::array<double, kSums> sums{};
    for (; count >= kSums; x += kSums, count -= kSums)
      for (std::size_t j = 0; j < kSums; ++j) sums[j] += f(static_cast<double>(x[j]));
    for (const double sum : sums) total += sum;
  }
  for (std::size_t j = 0; j < count; ++j) total += f(static_cast<double>(x[j]));
  return total;
}

double sum_row(const real* x, std::size_t width, const auto& f) {
  double total = 0;
  for (std::size_t at = 0; at < width; at += kPiece)
    total += sum_piece(x + at, std::min(kPiece, width - at), f);
  return total;
}

constexpr auto absolute = [](double x) { return std::abs(x); };
constexpr auto square = [](double x) { return x * x; };

// Zeros followed by ones: the vector that starts at index i has ones in its last i lanes.
constexpr auto kLastLanes = [] {
  std::array<real, 2 * kLanes> lanes{};
  std::fill(lanes.begin() + kLanes, lanes.end(), real{1});
  return lanes;
}();

// Returns Σ x² of a short row in the precision of `real`. at(i) is one value, and at_vector(i) is
// the vector from i on.
double fast_sum(std::size_t width, const auto& at_vector, const auto& at) {
  // Two sums hide the latency of an addition.
  std::array<Simd, 2> sums{Simd(real{0}), Simd(real{0})};
  std::size_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes)
    for (std::size_t k = 0; k < 2; ++k) {
      const Simd x = at_vector(i + k * kLanes);
      sums[k] = fma(x, x, sums[k]);
    }
  if (i + kLanes <= width) {
    const Simd x = at_vector(i);
    sums[0] = fma(x, x, sums[0]);
    i += kLanes;
  }
  real rest = 0;
  if (width >= kLanes) {
    const Simd x = at_vector(width - kLanes) * Simd::load_unaligned(&kLastLanes[width - i]);
    sums[1] = fma(x, x, sums[1]);
  } else {
    for (; i < width; ++i) rest += at(i) * at(i);
  }
  return static_cast<double>(lanes::sum(sums[0] + sums[1]) + rest);
}

// Returns true unless squares may have overflowed or underflowed.
bool is_precise(double squares) {
  constexpr double kMin = std::numeric_limits<real>::min() * 0x1p30;
  return squares >= kMin && std::isfinite(squares);
}

double sum_of(std::span<const RowSpan> arrays, const AllParts& all_parts, const auto& f) {
  double total = 0;
  std::array<double, kPieces> sums;
  for (std::size_t array = 0; array < arrays.size(); ++array) {
    const auto [values, rows, width] = arrays[array];
    std::vector<double> here;
    const std::size_t of_a_row = (width + kPiece - 1) / kPiece;
    for (std::size_t first = 0; first < rows * of_a_row; first += kPieces) {
      const std::size_t count = std::min(kPieces, rows * of_a_row - first);
      parallel_for_each(
          count, std::min(width, kPiece), [&, x = values, width = width](std::size_t i) {
            const std::size_t at = (first + i) % of_a_row * kPiece;
            sums[i] =
                sum_piece(x + (first + i) / of_a_row * width + at, std::min(kPiece, width - at), f);
          });
      if (all_parts)
        here.insert(here.end(), sums.begin(), sums.begin() + count);
      else
        for (std::size_t i = 0; i < count; ++i) total += sums[i];
    }
    if (all_parts)
      for (const double sum : all_parts(array, std::move(here))) total += sum;
  }
  return total;
}

double largest_of(std::span<const RowSpan> arrays, const AllParts& all_parts) {
  double largest = 0;
  for (std::size_t array = 0; array < arrays.size(); ++array) {
    const auto [values, rows, width] = arrays[array];
    std::vector<double> magnitudes{max_abs({values, rows * width})};
    if (all_parts) magnitudes = all_parts(array, std::move(magnitudes));
    for (const double magnitude : magnitudes)
      if (!(magnitude <= largest) && !std::isnan(largest)) largest = magnitude;
  }
  return largest;
}

}  // namespace

double norm(std::span<const RowSpan> arrays, double p, const AllParts& all_parts) {
  if (std::isinf(p)) return largest_of(arrays, all_parts);
  if (p == 1) return sum_of(arrays, all_parts, absolute);
  const double total = sum_of(arrays, all_parts, square);
  if (total >= kSmallest && std::isfinite(total)) return std::sqrt(total);
  // In units of the largest value, the sum is between 1 and the number of values.
  const double unit = largest_of(arrays, all_parts);
  if (unit == 0 || !std::isfinite(unit)) return unit;
  return unit * std::sqrt(sum_of(arrays, all_parts, [unit](double x) { return square(x / unit); }));
}

double norm(std::span<const real> row, double p) {
  const RowSpan only{row.data(), 1, row.size()};
  return norm({&only, 1}, p);
}

double distance(std::size_t width, const real* a, const real* b, double factor) {
  const auto rest = static_cast<real>(1 - factor);
  const double squares = fast_sum(
      width,
      [=](std::size_t i) {
        const Simd y = Simd::load_unaligned(b + i);
        return fma(Simd(rest), y, Simd::load_unaligned(a + i) - y);
      },
      [=](std::size_t i) { return std::fma(rest, b[i], a[i] - b[i]); });
  if (is_precise(squares)) return std::sqrt(squares);
  double total = 0;
  for (std::size_t i = 0; i < width; ++i)
    total += square(static_cast<double>(a[i]) - factor * static_cast<double>(b[i]));
  return std::sqrt(total);
}

double length(std::size_t width, const real* a) {
  const double squares = fast_sum(
      width, [=](std::size_t i) { return Simd::load_unaligned(a + i); },
      [=](std::size_t i) { return a[i]; });
  return is_precise(squares) ? std::sqrt(squares) : norm({a, width}, 2);
}

double max_abs(std::span<const real> values) {
  // The bits of nonnegative values are ordered like the values, with NaN above infinity.
  using Bits = std::conditional_t<sizeof(real) == 8, std::uint64_t, std::uint32_t>;
  std::atomic<Bits> largest = 0;
  parallel_for(values.size(), kGrainElements, [&](std::size_t begin, std::size_t end) {
    Bits bits = 0;
    for (const real value : values.subspan(begin, end - begin))
      bits = std::max(bits, std::bit_cast<Bits>(std::abs(value)));
    Bits before = largest;
    while (before < bits && !largest.compare_exchange_weak(before, bits)) {
    }
  });
  return std::bit_cast<real>(largest.load());
}

bool all_finite(std::span<const real> values) {
  std::atomic<bool> finite = true;
  parallel_for(values.size(), kGrainElements, [&](std::size_t begin, std::size_t end) {
    // 0 · x is 0 for finite x, and NaN otherwise.
    const real sum = sum_span(
        end - begin, [](const Simd& x) { return x * Simd(real{0}); }, values.data() + begin);
    if (sum != 0) finite = false;
  });
  return finite;
}

void norm_rows(const real* x, std::size_t rows, std::size_t width, real* norms) {
  parallel_for_each(rows, width, [&](std::size_t i) {
    const double total = sum_row(x + i * width, width, square);
    const bool is_exact = total >= kSmallest && std::isfinite(total);
    norms[i] = static_cast<real>(is_exact ? std::sqrt(total) : norm({x + i * width, width}, 2));
  });
}

}  // namespace rowgrad::kernels
