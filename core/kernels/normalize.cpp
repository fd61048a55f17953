#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/normalize.hpp>

namespace rowgrad::kernels {
namespace {

constexpr std::size_t kBlock = 1024;       // values summed in registers; block sums are doubles
constexpr std::size_t kRowsPerBlock = 32;  // whose gradients of the weight are summed first

// Rows are processed two at a time, so that their sums need not wait for each other. A row's bits
// do not depend on whether it is one of two or alone: the arithmetic is the same.
constexpr std::size_t kGroup = 2;

// Where a row is read and written: a whole vector, or the last, partial one, whose other lanes get
// `padding`.
struct WholeVector {
  std::size_t at;

  Simd load(const real* row, real = 0) const { return Simd::load_unaligned(row + at); }
  void store(const Simd& x, real* row) const { x.store_unaligned(row + at); }
};
struct PartialVector {
  std::size_t at;
  std::size_t count;

  Simd load(const real* row, real padding = 0) const {
    return load_partial(row + at, count, padding);
  }
  void store(const Simd& x, real* row) const { store_partial(x, row + at, count); }
};

template <class Visit>
void for_each_vector(std::size_t begin, std::size_t end, const Visit& visit) {
  for (; begin + kLanes <= end; begin += kLanes) visit(WholeVector{begin});
  if (begin < end) visit(PartialVector{begin, end - begin});
}

// `kSums` sums for each of `kRows` rows.
template <std::size_t kRows, std::size_t kSums, class Number>
using Sums = std::array<std::array<Number, kSums>, kRows>;

// Means over each row of a group: add(sums, vector) adds the values of a vector to the sums.
template <std::size_t kRows, std::size_t kSums, class Add>
Sums<kRows, kSums, double> means(std::size_t width, const Add add) {
  Sums<kRows, kSums, double> totals{};
  for (std::size_t begin = 0; begin < width; begin += kBlock) {
    Sums<kRows, kSums, Simd> sums;
    for (auto& of_row : sums) of_row.fill(Simd(real{0}));
    for_each_vector(begin, std::min(width, begin + kBlock),
                    [&](const auto& vector) { add(sums, vector); });
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t k = 0; k < kSums; ++k) totals[r][k] += lanes::sum(sums[r][k]);
  }
  const double share = 1 / static_cast<double>(width);
  for (auto& of_row : totals)
    for (double& total : of_row) total *= share;
  return totals;
}

Simd normalized(const Simd& x, const RowScaling& row) {
  return fma(x - Simd(row.shift), Simd(row.scale), Simd(row.offset));
}

struct RowMoments {
  RowScaling scaling;
  real mean;
  bool shift_is_far;  // from the mean, so that the variance has lost digits
};

// From the means of x − shift and (x − shift)².
[[gnu::noinline]] RowMoments row_moments(real shift, double rest, double square, double epsilon) {
  constexpr double kFar = 9;  // variances: three standard deviations
  const double rest_square = rest * rest;
  const double variance = std::max(square - rest_square, 0.0);
  const double scale = 1 / std::sqrt(variance + epsilon);
  return {{shift, static_cast<real>(scale), static_cast<real>(-rest * scale)},
          static_cast<real>(shift + rest),
          rest_square > kFar * variance};
}

// One pass over the rows, with the first value of each as the shift; another if one is far from the
// mean, with the mean that was found.
template <std::size_t kRows>
void find_layer_scalings(const real* x, std::size_t width, double epsilon, RowScaling* scalings) {
  std::array<real, kRows> shifts;
  for (std::size_t r = 0; r < kRows; ++r) shifts[r] = x[r * width];
  bool again = true;
  for (int pass = 0; again && pass < 2; ++pass) {
    const auto mean = means<kRows, 2>(width, [=](auto& sums, const auto& vector) {
      for (std::size_t r = 0; r < kRows; ++r) {
        const Simd distance = vector.load(x + r * width, shifts[r]) - Simd(shifts[r]);
        sums[r][0] += distance;
        sums[r][1] = fma(distance, distance, sums[r][1]);
      }
    });
    again = false;
    for (std::size_t r = 0; r < kRows; ++r) {
      const RowMoments row = row_moments(shifts[r], mean[r][0], mean[r][1], epsilon);
      scalings[r] = row.scaling;
      if (row.shift_is_far) shifts[r] = row.mean;
      again |= row.shift_is_far;
    }
  }
}

template <std::size_t kRows>
void find_rms_scalings(const real* x, std::size_t width, double epsilon, RowScaling* scalings) {
  const auto mean = means<kRows, 1>(width, [=](auto& sums, const auto& vector) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const Simd v = vector.load(x + r * width);
      sums[r][0] = fma(v, v, sums[r][0]);
    }
  });
  for (std::size_t r = 0; r < kRows; ++r)
    scalings[r] = row_moments(0, 0, mean[r][0], epsilon).scaling;
}

// A group of rows. `ahead` is the distance to the next group, whose values are prefetched: where
// several rows lie in one page, the processor's own prefetching does not predict that order.
template <RowNorm kNorm, std::size_t kRows>
void forward_group(const real* x, std::size_t width, std::size_t ahead, const real* weight,
                   const real* bias, double epsilon, real* y, RowScaling* scalings) {
  if constexpr (kNorm == RowNorm::kLayer)
    find_layer_scalings<kRows>(x, width, epsilon, scalings);
  else
    find_rms_scalings<kRows>(x, width, epsilon, scalings);
  for (std::size_t r = 0; r < kRows; ++r)
    for_each_vector(
        0, width,
        [=, from = x + r * width, to = y + r * width, row = scalings[r]](const auto& vector) {
          __builtin_prefetch(from + ahead + vector.at);
          const Simd normal = normalized(vector.load(from), row);
          const Simd w = vector.load(weight);
          if constexpr (kNorm == RowNorm::kLayer)
            vector.store(fma(normal, w, vector.load(bias)), to);
          else
            vector.store(normal * w, to);
        });
}

// dx = scale · g + slope · (x − shift) + constant in a row, from the means of g and g ∘ x̂.
struct LineOfGradient {
  real slope;
  real constant;
};
[[gnu::noinline]] LineOfGradient line_of_gradient(const RowScaling& row, double mean_g,
                                                  double mean_product) {
  const double scale = row.scale;
  return {static_cast<real>(-scale * scale * mean_product),
          static_cast<real>(-scale * (mean_product * row.offset + mean_g))};
}

// dx of a group of rows, unless it is null; it may be dy if it is not to be added. Adds the rows'
// gradients of the weight and, in layer normalisation, of the bias to `weight_sums`, if wanted.
template <RowNorm kNorm, bool kWantsWeights, std::size_t kRows>
void backward_group(const real* x, const real* dy, std::size_t width, std::size_t ahead,
                    const real* weight, const RowScaling* scalings, real* weight_sums, real* dx,
                    bool add_dx) {
  constexpr bool kLayer = kNorm == RowNorm::kLayer;
  std::array<RowScaling, kRows> rows;
  std::copy_n(scalings, kRows, rows.begin());
  const auto mean = means<kRows, 2>(width, [=](auto& sums, const auto& vector) {
    const Simd w = vector.load(weight);
    Simd weight_sum = kWantsWeights ? vector.load(weight_sums) : w;
    Simd bias_sum = kWantsWeights && kLayer ? vector.load(weight_sums + width) : w;
    for (std::size_t r = 0; r < kRows; ++r) {
      const Simd normal = normalized(vector.load(x + r * width, rows[r].shift), rows[r]);
      const Simd upstream = vector.load(dy + r * width);
      const Simd g = upstream * w;
      if constexpr (kLayer) sums[r][0] += g;
      sums[r][1] = fma(g, normal, sums[r][1]);
      weight_sum = fma(upstream, normal, weight_sum);
      if constexpr (kLayer) bias_sum += upstream;
    }
    if constexpr (kWantsWeights) vector.store(weight_sum, weight_sums);
    if constexpr (kWantsWeights && kLayer) vector.store(bias_sum, weight_sums + width);
  });
  if (dx == nullptr) return;
  for (std::size_t r = 0; r < kRows; ++r) {
    for_each_vector(
        0, width,
        [=, from = x + r * width, upstream = dy + r * width, to = dx + r * width, row = rows[r],
         line = line_of_gradient(rows[r], mean[r][0], mean[r][1])](const auto& vector) {
          __builtin_prefetch(from + ahead + vector.at);
          __builtin_prefetch(upstream + ahead + vector.at);
          const Simd rest =
              fma(vector.load(from) - Simd(row.shift), Simd(line.slope), Simd(line.constant));
          const Simd g = vector.load(upstream) * vector.load(weight);
          const Simd gradient = fma(g, Simd(row.scale), rest);
          vector.store(add_dx ? vector.load(to) + gradient : gradient, to);
        });
  }
}

// Calls each(its number of rows as a constant, first row, distance to the next one) for each group
// of the rows [begin, end).
template <class Each>
void for_each_group(std::size_t begin, std::size_t end, std::size_t width, const Each& each) {
  for (; begin + kGroup <= end; begin += kGroup)
    each(std::integral_constant<std::size_t, kGroup>(), begin,
         begin + 2 * kGroup <= end ? kGroup * width : 0);
  for (; begin < end; ++begin) each(std::integral_constant<std::size_t, 1>(), begin, 0);
}

template <RowNorm kNorm>
void forward_rows(const real* x, std::size_t rows, std::size_t width, const real* weight,
                  const real* bias, double epsilon, real* y, RowScaling* scalings) {
  parallel_for(rows, row_grain(width), [=](std::size_t begin, std::size_t end) {
    for_each_group(begin, end, width, [=](auto count, std::size_t row, std::size_t ahead) {
      const std::size_t at = row * width;
      forward_group<kNorm, count()>(x + at, width, ahead, weight, bias, epsilon, y + at,
                                    scalings + row);
    });
  });
}

template <RowNorm kNorm, bool kWantsWeights>
void backward_rows(const real* x, const real* dy, std::size_t rows, std::size_t width,
                   const real* weight, const RowScaling* scalings, const NormGradients& gradients) {
  constexpr std::size_t kParts = kNorm == RowNorm::kLayer ? 2 : 1;  // dweight and dbias
  const std::size_t blocks = (rows + kRowsPerBlock - 1) / kRowsPerBlock;
  Tensor sums = zeros({kWantsWeights ? blocks : 0, kParts, width});
  parallel_for(
      blocks, row_grain(kRowsPerBlock * width),
      [=, all_sums = sums.data()](std::size_t first, std::size_t last) {
        for (std::size_t block = first; block < last; ++block) {
          real* const block_sums = kWantsWeights ? all_sums + block * kParts * width : nullptr;
          const std::size_t begin = block * kRowsPerBlock;
          const std::size_t end = std::min(rows, begin + kRowsPerBlock);
          for_each_group(begin, end, width, [=](auto count, std::size_t row, std::size_t ahead) {
            const std::size_t at = row * width;
            backward_group<kNorm, kWantsWeights, count()>(
                x + at, dy + at, width, ahead, weight, scalings + row, block_sums,
                gradients.x != nullptr ? gradients.x + at : nullptr, gradients.add_x);
          });
        }
      });
  if (!kWantsWeights) return;
  const Tensor total = sum_along(sums, {true, false, false});
  if (gradients.weight != nullptr) std::copy_n(total.data(), width, gradients.weight);
  if (gradients.bias != nullptr)
    std::copy_n(total.data() + (kParts - 1) * width, width, gradients.bias);
}

}  // namespace

void normalize_rows(RowNorm norm, const real* x, std::size_t rows, std::size_t width,
                    const real* weight, const real* bias, double epsilon, real* y,
                    RowScaling* scalings) {
  const auto forward = norm == RowNorm::kLayer ? forward_rows<RowNorm::kLayer>
                                               : forward_rows<RowNorm::kRootMeanSquare>;
  forward(x, rows, width, weight, bias, epsilon, y, scalings);
}

void normalize_rows_backward(RowNorm norm, const real* x, const real* dy, std::size_t rows,
                             std::size_t width, const real* weight, const RowScaling* scalings,
                             const NormGradients& gradients) {
  const auto go_back = [&]<RowNorm kNorm>() {
    const bool wants_weights = gradients.weight != nullptr || gradients.bias != nullptr;
    const auto backward = wants_weights ? backward_rows<kNorm, true> : backward_rows<kNorm, false>;
    backward(x, dy, rows, width, weight, scalings, gradients);
  };
  if (norm == RowNorm::kLayer)
    go_back.operator()<RowNorm::kLayer>();
  else
    go_back.operator()<RowNorm::kRootMeanSquare>();
}

}  // namespace rowgrad::kernels
