#include <algorithm>
#include <array>
#include <cmath>

#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/normalize.hpp>

namespace rowgrad::kernels {
namespace {

constexpr std::size_t kBlock = 1024;  // values summed in registers; block sums are doubles

// Means over a row: add(sums, vector) adds the values of a vector to the sums.
template <std::size_t kSums, class Add>
std::array<double, kSums> means(std::size_t width, const Add add) {
  std::array<double, kSums> totals{};
  for (std::size_t begin = 0; begin < width; begin += kBlock) {
    std::array<Simd, kSums> sums;
    sums.fill(Simd(real{0}));
    for_vectors(begin, std::min(width, begin + kBlock), [&](const auto& v) { add(sums, v); });
    for (std::size_t k = 0; k < kSums; ++k) totals[k] += lanes::sum(sums[k]);
  }
  for (double& total : totals) total *= 1 / static_cast<double>(width);
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

// One pass over the row, with its first value as the shift; another with the mean that was found if
// that is far from it.
RowScaling layer_scaling(const real* x, std::size_t width, double epsilon) {
  const auto moments = [&](real shift) {
    const auto mean = means<2>(width, [=](auto& sums, const auto& v) {
      const Simd distance = v.load(x, shift) - Simd(shift);
      sums[0] += distance;
      sums[1] = fma(distance, distance, sums[1]);
    });
    return row_moments(shift, mean[0], mean[1], epsilon);
  };
  const RowMoments first = moments(x[0]);
  return first.shift_is_far ? moments(first.mean).scaling : first.scaling;
}

RowScaling rms_scaling(const real* x, std::size_t width, double epsilon) {
  const auto mean = means<1>(width, [=](auto& sums, const auto& v) {
    const Simd number = v.load(x, 0);
    sums[0] = fma(number, number, sums[0]);
  });
  return row_moments(0, 0, mean[0], epsilon).scaling;
}

template <RowNorm kNorm>
void forward_rows(const real* x, std::size_t rows, std::size_t width, const real* weight,
                  const real* bias, double epsilon, real* y, RowScaling* scalings) {
  parallel_for(rows, row_grain(width), [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const real* from = x + i * width;
      const RowScaling row = kNorm == RowNorm::kLayer ? layer_scaling(from, width, epsilon)
                                                      : rms_scaling(from, width, epsilon);
      scalings[i] = row;
      for_vectors(0, width, [=, to = y + i * width](const auto& v) {
        const Simd normal = normalized(v.load(from), row);
        if constexpr (kNorm == RowNorm::kLayer)
          v.store(fma(normal, v.load(weight), v.load(bias)), to);
        else
          v.store(normal * v.load(weight), to);
      });
    }
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

// dx of a row, unless it is null; it may be dy if it is not to be added. Adds the row's gradients
// of the weight and, in layer normalisation, of the bias to `weight_sums`, if wanted.
template <RowNorm kNorm, bool kWantsWeights>
void backward_row(const real* x, const real* dy, std::size_t width, const real* weight,
                  const RowScaling row, real* weight_sums, real* dx, bool add_dx) {
  constexpr bool kLayer = kNorm == RowNorm::kLayer;
  const auto mean = means<2>(width, [=](auto& sums, const auto& v) {
    const Simd normal = normalized(v.load(x, row.shift), row);
    const Simd upstream = v.load(dy, 0);
    const Simd g = upstream * v.load(weight);
    if constexpr (kLayer) sums[0] += g;
    sums[1] = fma(g, normal, sums[1]);
    if constexpr (kWantsWeights) v.store(fma(upstream, normal, v.load(weight_sums)), weight_sums);
    if constexpr (kWantsWeights && kLayer)
      v.store(v.load(weight_sums + width) + upstream, weight_sums + width);
  });
  if (dx == nullptr) return;
  const LineOfGradient line = line_of_gradient(row, mean[0], mean[1]);
  for_vectors(0, width, [=](const auto& v) {
    const Simd rest = fma(v.load(x) - Simd(row.shift), Simd(line.slope), Simd(line.constant));
    const Simd gradient = fma(v.load(dy) * v.load(weight), Simd(row.scale), rest);
    v.store(add_dx ? v.load(dx) + gradient : gradient, dx);
  });
}

template <RowNorm kNorm, bool kWantsWeights>
void backward_rows(const real* x, const real* dy, std::size_t rows, std::size_t width,
                   const real* weight, const RowScaling* scalings, const NormGradients& gradients) {
  constexpr std::size_t kParts = !kWantsWeights ? 0 : kNorm == RowNorm::kLayer ? 2 : 1;
  const Tensor total =
      sum_of_rows(rows, kParts * width, width, [=](std::size_t i, real* weight_sums) {
        real* const dx = gradients.x != nullptr ? gradients.x + i * width : nullptr;
        backward_row<kNorm, kWantsWeights>(x + i * width, dy + i * width, width, weight,
                                           scalings[i], weight_sums, dx, gradients.add_x);
      });
  if (gradients.weight != nullptr) std::copy_n(total.data(), width, gradients.weight);
  if (gradients.bias != nullptr) std::copy_n(total.data() + width, width, gradients.bias);
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
