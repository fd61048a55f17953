#include <algorithm>
#include <array>
#include <cmath>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/normalize.hpp>
#include <rowgrad/core/kernels/reduce.hpp>

namespace rowgrad::kernels {
namespace {

// Rows are handled in groups, so that the sums of one row need not wait for each other. The
// arithmetic of a row is the same in a group of any size: fma() stands wherever a product is added,
// or else the compiler would choose, in each place anew, whether to round the product.
constexpr std::size_t kGroup = 4;
constexpr std::size_t kRowsPerBlock = 32;  // whose gradients of the weight are added first
constexpr std::size_t kBlock = 1024;       // values summed in registers; block sums are doubles

// Places in a row: a whole vector, and the last, partial one, whose other lanes get `padding`.
struct WholeVector {
  std::size_t at;

  Simd load(const real* row, real = 0) const { return Simd::load_unaligned(row + at); }
  void store(const Simd& x, real* row) const { x.store_unaligned(row + at); }
};
struct PartialVector {
  std::size_t at, count;

  Simd load(const real* row, real padding = 0) const {
    alignas(64) std::array<real, kLanes> lanes;
    lanes.fill(padding);
    std::copy_n(row + at, count, lanes.data());
    return Simd::load_aligned(lanes.data());
  }
  void store(const Simd& x, real* row) const { store_partial(x, row + at, count); }
};

template <class Visit>
void for_each_vector(std::size_t begin, std::size_t end, const Visit& visit) {
  for (; begin + kLanes <= end; begin += kLanes) visit(WholeVector{begin});
  if (begin < end) visit(PartialVector{begin, end - begin});
}

template <std::size_t kRows, std::size_t kSums, class Number>
using Sums = std::array<std::array<Number, kSums>, kRows>;

// Means over each of a group of rows: add(sums, place) adds what stands at a place to the sums.
template <std::size_t kRows, std::size_t kSums, class Add>
Sums<kRows, kSums, double> means(std::size_t width, const Add add) {
  Sums<kRows, kSums, double> totals{};
  for (std::size_t begin = 0; begin < width; begin += kBlock) {
    Sums<kRows, kSums, Simd> sums;
    for (auto& of_row : sums) of_row.fill(Simd(real{0}));
    for_each_vector(begin, std::min(width, begin + kBlock),
                    [&](const auto& place) { add(sums, place); });
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t k = 0; k < kSums; ++k) totals[r][k] += sum_of_lanes(sums[r][k]);
  }
  for (auto& of_row : totals)
    for (double& total : of_row) total /= static_cast<double>(width);
  return totals;
}

// x̂ of a vector of a row.
Simd normalized(const Simd& x, const RowScaling& row) {
  return xsimd::fma(x - Simd(row.shift), Simd(row.scale), Simd(row.offset));
}

template <RowNorm kNorm, std::size_t kRows>
void find_scalings(const real* x, std::size_t width, double epsilon, RowScaling* scalings) {
  if constexpr (kNorm == RowNorm::kRootMeanSquare) {
    const auto squares = means<kRows, 1>(width, [=](auto& sums, const auto& place) {
      for (std::size_t r = 0; r < kRows; ++r) {
        const Simd v = place.load(x + r * width);
        sums[r][0] = xsimd::fma(v, v, sums[r][0]);
      }
    });
    for (std::size_t r = 0; r < kRows; ++r)
      scalings[r] = {0, static_cast<real>(1 / std::sqrt(squares[r][0] + epsilon)), 0};
  } else {
    const auto first = means<kRows, 1>(width, [=](auto& sums, const auto& place) {
      for (std::size_t r = 0; r < kRows; ++r) sums[r][0] += place.load(x + r * width);
    });
    std::array<real, kRows> shifts;
    for (std::size_t r = 0; r < kRows; ++r) shifts[r] = static_cast<real>(first[r][0]);
    const auto rests = means<kRows, 2>(width, [=](auto& sums, const auto& place) {
      for (std::size_t r = 0; r < kRows; ++r) {
        const Simd deviation = place.load(x + r * width, shifts[r]) - Simd(shifts[r]);
        sums[r][0] += deviation;
        sums[r][1] = xsimd::fma(deviation, deviation, sums[r][1]);
      }
    });
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto [rest, square] = rests[r];  // the mean is shift + rest
      const double variance = std::max(square - rest * rest, 0.0);
      const double scale = 1 / std::sqrt(variance + epsilon);
      scalings[r] = {shifts[r], static_cast<real>(scale), static_cast<real>(-rest * scale)};
    }
  }
}

template <RowNorm kNorm, std::size_t kRows>
void forward_group(const real* x, std::size_t width, const real* weight, const real* bias,
                   double epsilon, real* y, RowScaling* scalings) {
  find_scalings<kNorm, kRows>(x, width, epsilon, scalings);
  for (std::size_t r = 0; r < kRows; ++r) {
    const real* from = x + r * width;
    real* to = y + r * width;
    if constexpr (kNorm == RowNorm::kRootMeanSquare)
      visit_span<2>(width, {from, weight},
                    [to, row = scalings[r]](const auto& v, const auto& put) {
                      put(normalized(v[0], row) * v[1], to);
                    });
    else
      visit_span<3>(width, {from, weight, bias}, [to, row = scalings[r]](const auto& v, const auto& put) {
        put(xsimd::fma(normalized(v[0], row), v[1], v[2]), to);
      });
  }
}

// dx of a group of rows, unless dx is null; it may be dy. Adds the rows' gradients of the weight
// and, in layer normalisation, of the bias to `weight_sums`.
template <RowNorm kNorm, std::size_t kRows>
void backward_group(const real* x, const real* dy, std::size_t width, const real* weight,
                    const RowScaling* scalings, real* weight_sums, real* dx) {
  constexpr bool kLayer = kNorm == RowNorm::kLayer;
  std::array<RowScaling, kRows> group;
  std::copy_n(scalings, kRows, group.begin());
  const auto mean = means<kRows, 2>(width, [=](auto& sums, const auto& place) {
    const Simd w = place.load(weight);
    Simd weight_sum = place.load(weight_sums);
    Simd bias_sum = kLayer ? place.load(weight_sums + width) : w;
    for (std::size_t r = 0; r < kRows; ++r) {
      const Simd normal = normalized(place.load(x + r * width, group[r].shift), group[r]);
      const Simd g = place.load(dy + r * width);
      if constexpr (kLayer) sums[r][0] = xsimd::fma(g, w, sums[r][0]);
      sums[r][1] = xsimd::fma(g * w, normal, sums[r][1]);
      weight_sum = xsimd::fma(g, normal, weight_sum);
      if constexpr (kLayer) bias_sum += g;
    }
    place.store(weight_sum, weight_sums);
    if constexpr (kLayer) place.store(bias_sum, weight_sums + width);
  });
  if (dx == nullptr) return;
  for (std::size_t r = 0; r < kRows; ++r) {
    // dx = g · scale + (x − shift) · slope + constant, where g = dy ∘ weight
    const auto [shift, scale, offset] = group[r];
    const double per_normal = -scale * mean[r][1];
    const auto slope = static_cast<real>(per_normal * scale);
    const auto constant = static_cast<real>(per_normal * offset - scale * mean[r][0]);
    visit_span<3>(width, {x + r * width, dy + r * width, weight},
                  [=, shift = shift, scale = scale, to = dx + r * width](const auto& v, const auto& put) {
                    const Simd rest = xsimd::fma(v[0] - Simd(shift), Simd(slope), Simd(constant));
                    put(xsimd::fma(v[1] * v[2], Simd(scale), rest), to);
                  });
  }
}

// Calls each(rows as a constant, first row) for groups of rows, then for single ones.
template <class Each>
void for_each_group(std::size_t begin, std::size_t end, const Each& each) {
  for (; begin + kGroup <= end; begin += kGroup)
    each(std::integral_constant<std::size_t, kGroup>(), begin);
  for (; begin < end; ++begin) each(std::integral_constant<std::size_t, 1>(), begin);
}

template <RowNorm kNorm>
void forward_rows(const real* x, std::size_t rows, std::size_t width, const real* weight,
                  const real* bias, double epsilon, real* y, RowScaling* scalings) {
  parallel_for(rows, row_grain(width), [=](std::size_t begin, std::size_t end) {
    for_each_group(begin, end, [=](auto count, std::size_t row) {
      const std::size_t at = row * width;
      forward_group<kNorm, count()>(x + at, width, weight, bias, epsilon, y + at, scalings + row);
    });
  });
}

template <RowNorm kNorm>
void backward_rows(const real* x, const real* dy, std::size_t rows, std::size_t width,
                   const real* weight, const RowScaling* scalings, const NormGradients& gradients) {
  constexpr std::size_t kParts = kNorm == RowNorm::kLayer ? 2 : 1;  // dweight and dbias
  const std::size_t blocks = (rows + kRowsPerBlock - 1) / kRowsPerBlock;
  Tensor sums = zeros({blocks, kParts, width});
  real* const sums_data = sums.data();
  parallel_for(blocks, row_grain(kRowsPerBlock * width), [=](std::size_t first, std::size_t last) {
    for (std::size_t block = first; block < last; ++block) {
      const std::size_t begin = block * kRowsPerBlock;
      for_each_group(begin, std::min(rows, begin + kRowsPerBlock), [=](auto count,
                                                                       std::size_t row) {
        const std::size_t at = row * width;
        backward_group<kNorm, count()>(x + at, dy + at, width, weight, scalings + row,
                                       sums_data + block * kParts * width,
                                       gradients.x != nullptr ? gradients.x + at : nullptr);
      });
    }
  });
  if (gradients.weight == nullptr && gradients.bias == nullptr) return;
  const Tensor total = sum_along(sums, {true, false, false});
  if (gradients.weight != nullptr) std::copy_n(total.data(), width, gradients.weight);
  if (gradients.bias != nullptr)
    std::copy_n(total.data() + (kParts - 1) * width, width, gradients.bias);
}

}  // namespace

void normalize_rows(RowNorm norm, const real* x, std::size_t rows, std::size_t width,
                    const real* weight, const real* bias, double epsilon, real* y,
                    RowScaling* scalings) {
  if (norm == RowNorm::kLayer)
    forward_rows<RowNorm::kLayer>(x, rows, width, weight, bias, epsilon, y, scalings);
  else
    forward_rows<RowNorm::kRootMeanSquare>(x, rows, width, weight, bias, epsilon, y, scalings);
}

void normalize_rows_backward(RowNorm norm, const real* x, const real* dy, std::size_t rows,
                             std::size_t width, const real* weight, const RowScaling* scalings,
                             const NormGradients& gradients) {
  if (norm == RowNorm::kLayer)
    backward_rows<RowNorm::kLayer>(x, dy, rows, width, weight, scalings, gradients);
  else
    backward_rows<RowNorm::kRootMeanSquare>(x, dy, rows, width, weight, scalings, gradients);
}

}  // namespace rowgrad::kernels
