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

constexpr std::size_t kPlacesPerSum = 4096;  // elements of the whole array in one partial sum
constexpr std::size_t kSums = 16;  // running sums of a block: element i goes to sum i % kSums

using Numbers = std::array<real, kSums>;

// sum + x². If the processor has one instruction for both, it is always used; otherwise the
// compiler would use it here and there only, and the bits would depend on where.
double add_square(double sum, double x) {
#if defined(FP_FAST_FMA)
  return std::fma(x, x, sum);
#else
  return sum + x * x;
#endif
}

// A sum of powers below this may lack some that underflowed.
constexpr double kSmallest = std::numeric_limits<double>::min() * 0x1p64;

// The running sums of one block; add_power(sum, x) adds a value. Zeros do not change the sums, so
// they may be skipped.
template <class AddPower>
class BlockSum {
 public:
  explicit BlockSum(const AddPower& add_power) : add_power_(add_power) { sums_.fill(0); }

  // Adds `count` values that start at `index` of the block.
  void add(std::size_t index, const real* values, std::size_t count) {
    if (const std::size_t lane = index % kSums; lane != 0) {
      const std::size_t head = std::min(kSums - lane, count);
      add_padded(lane, values, head);
      values += head;
      count -= head;
    }
    for (; count >= kSums; values += kSums, count -= kSums) add_all(values);
    if (count > 0) add_padded(0, values, count);
  }

  double total() const {
    double total = 0;
    for (const double sum : sums_) total += sum;
    return total;
  }

 private:
  void add_padded(std::size_t lane, const real* values, std::size_t count) {
    Numbers padded{};
    std::copy_n(values, count, padded.begin() + lane);
    add_all(padded.data());
  }

  void add_all(const real* values) {
    for (std::size_t i = 0; i < kSums; ++i)
      sums_[i] = add_power_(sums_[i], static_cast<double>(values[i]));
  }

  AddPower add_power_;
  std::array<double, kSums> sums_;
};

// A block that overlaps some row, and the first such row.
struct Touched {
  std::size_t block;
  std::size_t row;
};

double sum_rows(std::span<const std::int32_t> indices, std::size_t width, const real* values,
                const auto& add_power) {
  const auto first_index = [&](std::size_t row) {
    return static_cast<std::size_t>(indices[row]) * width;
  };
  std::vector<Touched> touched;
  for (std::size_t row = 0; width > 0 && row < indices.size(); ++row) {
    const std::size_t begin = first_index(row);
    std::size_t block = begin / kPlacesPerSum;
    if (!touched.empty() && touched.back().block == block) ++block;
    for (; block * kPlacesPerSum < begin + width; ++block) touched.push_back({block, row});
  }

  std::vector<double> sums(touched.size());
  const std::size_t average = indices.size() * width / std::max<std::size_t>(touched.size(), 1);
  parallel_for(touched.size(), row_grain(average), [&](std::size_t low, std::size_t high) {
    for (std::size_t i = low; i < high; ++i) {
      const std::size_t block_begin = touched[i].block * kPlacesPerSum;
      const std::size_t block_end = block_begin + kPlacesPerSum;
      BlockSum sum(add_power);
      for (std::size_t row = touched[i].row; row < indices.size(); ++row) {
        const std::size_t row_begin = first_index(row);
        if (row_begin >= block_end) break;
        const std::size_t begin = std::max(block_begin, row_begin);
        const std::size_t end = std::min(block_end, row_begin + width);
        sum.add(begin - block_begin, values + row * width + (begin - row_begin), end - begin);
      }
      sums[i] = sum.total();
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace

double sum_of_powers(std::span<const std::int32_t> indices, std::size_t width,
                     std::span<const real> values, double p, double unit) {
  const auto with = [&](const auto& add_power) {
    return sum_rows(indices, width, values.data(), add_power);
  };
  if (p == 1 && unit == 1) return with([](double sum, double x) { return sum + std::abs(x); });
  if (p == 2 && unit == 1) return with([](double sum, double x) { return add_square(sum, x); });
  return with([p, unit](double sum, double x) { return sum + std::pow(std::abs(x) / unit, p); });
}

double sum_of_powers(std::span<const real> values, double p, double unit) {
  constexpr std::int32_t kOnlyRow = 0;
  return sum_of_powers({&kOnlyRow, 1}, values.size(), values, p, unit);
}

double largest_magnitude(std::span<const real> values) {
  // The bits of nonnegative numbers are ordered like the numbers, with NaN above infinity.
  using Bits = std::conditional_t<sizeof(real) == 8, std::uint64_t, std::uint32_t>;
  std::vector<Bits> largest((values.size() + kPlacesPerSum - 1) / kPlacesPerSum);
  parallel_for(largest.size(), row_grain(kPlacesPerSum), [&](std::size_t low, std::size_t high) {
    for (std::size_t i = low; i < high; ++i) {
      Bits bits = 0;
      const std::size_t begin = i * kPlacesPerSum;
      for (const real value : values.subspan(begin, std::min(kPlacesPerSum, values.size() - begin)))
        bits = std::max(bits, std::bit_cast<Bits>(std::abs(value)));
      largest[i] = bits;
    }
  });
  const auto found = std::max_element(largest.begin(), largest.end());
  return found == largest.end() ? 0 : std::bit_cast<real>(*found);
}

double norm(double p, const std::function<double(double unit)>& powers,
            const std::function<double()>& largest) {
  if (std::isinf(p)) return largest();
  const auto root = [p](double power) {
    return p == 2 ? std::sqrt(power) : std::pow(power, 1 / p);
  };
  const double total = powers(1);
  if (total >= kSmallest && std::isfinite(total)) return root(total);
  // In units of the largest value, the sum is between 1 and the number of values.
  const double unit = largest();
  if (unit == 0 || !std::isfinite(unit)) return unit;
  return unit * root(powers(unit));
}

double norm(std::span<const real> values, double p) {
  return norm(
      p, [&](double unit) { return sum_of_powers(values, p, unit); },
      [&] { return largest_magnitude(values); });
}

void norm_rows(const real* x, std::size_t rows, std::size_t width, real* norms) {
  parallel_for(rows, row_grain(width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      BlockSum squares([](double sum, double number) { return add_square(sum, number); });
      squares.add(0, x + i * width, width);
      const double total = squares.total();
      const bool is_exact = total >= kSmallest && std::isfinite(total);
      norms[i] = static_cast<real>(is_exact ? std::sqrt(total) : norm({x + i * width, width}, 2));
    }
  });
}

}  // namespace rowgrad::kernels
