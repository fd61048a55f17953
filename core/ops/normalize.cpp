#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/ops/normalize.hpp>

namespace rowgrad {
namespace {

using kernels::for_vectors;

enum class Normalization { kLayer, kRootMeanSquare };

// The normalization of a row, x̂ = (x − shift) · scale + offset, kept for backward.
//
// The mean is subtracted in two steps: first a value near the mean, then the rest. So a large mean
// does not reduce the accuracy of x̂. With n = min(width, 1024) / kLanes + kLanes and u = (machine
// epsilon) / 2, the error is below 16 (n + 4) u max(1, |x̂|), and about sqrt(n) u in practice. A
// row with NaN becomes NaN, as does a row with infinity in layer normalization. Other rows are not
// affected.
//
// In rows with huge or tiny values, squares and products would overflow or underflow. There, x
// means unit · x, where `unit` is a power of 2 that brings the largest magnitude near 1.
struct RowScaling {
  real shift;
  real scale;
  real offset;
  real unit = 1;

  Simd normalized(const Simd& x) const { return fma(x - Simd(shift), Simd(scale), Simd(offset)); }
};

// Returns means over a row. add(sums, vector) adds the elements of a vector to the sums, which are
// `real`s in registers within a block of the row. Blocks are added in double precision.
template <std::size_t kSums, class Add>
std::array<double, kSums> row_means(std::size_t width, const Add add) {
  constexpr std::size_t kBlock = 1024;
  std::array<double, kSums> totals{};
  for (std::size_t begin = 0; begin < width; begin += kBlock) {
    std::array<Simd, kSums> sums;
    sums.fill(Simd(real{0}));
    for_vectors(begin, std::min(width, begin + kBlock), [&](const auto& v) { add(sums, v); });
    for (std::size_t k = 0; k < kSums; ++k) totals[k] += kernels::lanes::sum(sums[k]);
  }
  for (double& total : totals) total *= 1 / static_cast<double>(width);
  return totals;
}

struct RowMoments {
  RowScaling scaling;
  real mean;
  bool shift_is_far;  // true if the variance is inaccurate, as the shift is far from the mean
  bool is_in_range;   // true if squares and products do not overflow or underflow
};

// Returns the moments from the means of x − shift and (x − shift)².
[[gnu::noinline]] RowMoments row_moments(real shift, double rest, double square, double epsilon) {
  constexpr double kFar = 9;  // in variances: three standard deviations
  const double rest_square = rest * rest;
  const double variance = std::max(square - rest_square, 0.0);
  const double scale = 1 / std::sqrt(variance + epsilon);
  // The square of `scale` leaves a quarter of the exponent range for products with gradients.
  constexpr int kMaxExponent = std::numeric_limits<real>::max_exponent / 4 * 3;
  const double sum = square + epsilon;
  return {{shift, static_cast<real>(scale), static_cast<real>(-rest * scale)},
          static_cast<real>(shift + rest),
          rest_square > kFar * variance,
          sum < std::ldexp(1, kMaxExponent) && sum > std::ldexp(1, -kMaxExponent)};
}

// Returns the moments after one pass over the row, with the first element as the shift. If this
// shift is too far from the mean, makes a second pass with the mean as the shift.
RowMoments layer_moments(const real* x, std::size_t width, double epsilon) {
  const auto moments = [&](real shift) {
    const auto mean = row_means<2>(width, [=](auto& sums, const auto& v) {
      const Simd distance = v.load(x, shift) - Simd(shift);
      sums[0] += distance;
      sums[1] = fma(distance, distance, sums[1]);
    });
    return row_moments(shift, mean[0], mean[1], epsilon);
  };
  const RowMoments first = moments(x[0]);
  return first.shift_is_far ? moments(first.mean) : first;
}

RowMoments rms_moments(const real* x, std::size_t width, double epsilon) {
  const auto mean = row_means<1>(width, [=](auto& sums, const auto& v) {
    const Simd value = v.load(x, 0);
    sums[0] = fma(value, value, sums[0]);
  });
  return row_moments(0, 0, mean[0], epsilon);
}

template <Normalization kKind>
RowMoments moments_of(const real* x, std::size_t width, double epsilon) {
  return kKind == Normalization::kLayer ? layer_moments(x, width, epsilon)
                                        : rms_moments(x, width, epsilon);
}

// Returns a power of 2 that brings the largest magnitude in a row, or sqrt(epsilon) if that is
// larger, near 1. Returns 1 if both are 0, and for rows with NaN or infinity.
real unit_of(const real* x, std::size_t width, double epsilon) {
  const double largest = std::max<double>(kernels::max_abs({x, width}), std::sqrt(epsilon));
  if (largest == 0 || !std::isfinite(largest)) return 1;
  constexpr int kMaxExponent = std::numeric_limits<real>::max_exponent - 2;
  return std::ldexp(real{1}, std::clamp(-std::ilogb(largest), -kMaxExponent, kMaxExponent));
}

// Computes to = unit · x.
void scale_row(const real* x, std::size_t width, real unit, real* to) {
  kernels::map_span(
      width, to, [unit = Simd(unit)](const Simd& v) { return v * unit; }, x);
}

// Computes y = x̂ ∘ weight + bias for a row. The root-mean-square norm has no bias.
template <Normalization kKind>
void normalize_row(const real* x, std::size_t width, const RowScaling row, const real* weight,
                   const real* bias, real* y) {
  for_vectors(0, width, [=](const auto& v) {
    const Simd normal = row.normalized(v.load(x));
    if constexpr (kKind == Normalization::kLayer)
      v.store(fma(normal, v.load(weight), v.load(bias)), y);
    else
      v.store(normal * v.load(weight), y);
  });
}

template <Normalization kKind>
std::vector<RowScaling> normalize_rows(const real* x, std::size_t rows, std::size_t width,
                                       const real* weight, const real* bias, double epsilon,
                                       real* y) {
  std::vector<RowScaling> scalings(rows);
  std::atomic<bool> all_in_range = true;
  kernels::parallel_for_each(
      rows, width, [=, of_rows = scalings.data(), &all_in_range](std::size_t i) {
        const real* from = x + i * width;
        const RowMoments row = moments_of<kKind>(from, width, epsilon);
        of_rows[i] = row.scaling;
        if (!row.is_in_range) {
          of_rows[i].unit = 0;  // marks rows to scale below
          all_in_range = false;
        }
        normalize_row<kKind>(from, width, row.scaling, weight, bias, y + i * width);
      });
  if (all_in_range) return scalings;
  std::vector<real> scaled(width);
  for (std::size_t i = 0; i < rows; ++i) {
    if (scalings[i].unit != 0) continue;
    const real unit = unit_of(x + i * width, width, epsilon);
    scale_row(x + i * width, width, unit, scaled.data());
    scalings[i] = moments_of<kKind>(scaled.data(), width, epsilon * unit * unit).scaling;
    scalings[i].unit = unit;
    normalize_row<kKind>(scaled.data(), width, scalings[i], weight, bias, y + i * width);
  }
  return scalings;
}

// Returns the rows of x, each multiplied by its unit, or nullopt if all units are 1.
std::optional<Tensor> in_units(const Tensor& x, std::size_t width,
                               const std::vector<RowScaling>& rows) {
  if (std::ranges::all_of(rows, [](const RowScaling& row) { return row.unit == 1; }))
    return std::nullopt;
  Tensor scaled = empty(x.shape());
  for (std::size_t i = 0; i < rows.size(); ++i)
    scale_row(x.data() + i * width, width, rows[i].unit, scaled.data() + i * width);
  return scaled;
}

// The part of dx that is linear in x: dx = scale · g + slope · (x − shift) + constant.
struct GradientLine {
  real slope;
  real constant;
};
// Computes the line from the means of g and g ∘ x̂ in a row.
[[gnu::noinline]] GradientLine gradient_line(const RowScaling& row, double mean_g,
                                             double mean_product) {
  const double scale = row.scale;
  return {static_cast<real>(-scale * scale * mean_product),
          static_cast<real>(-scale * (mean_product * row.offset + mean_g))};
}

// Computes dx = scale · (g − mean g − x̂ mean (g ∘ x̂)) with g = dy ∘ weight, unless dx is null. The
// root-mean-square norm has no mean g. Adds to dx if `add_dx`; otherwise dx may be dy. If
// kWantsWeights, adds the row's dy ∘ x̂ and, in layer normalization, its dy to `weight_sums`.
template <Normalization kKind, bool kWantsWeights>
void backward_row(const real* x, const real* dy, std::size_t width, const real* weight,
                  const RowScaling row, real* weight_sums, real* dx, bool add_dx) {
  constexpr bool kLayer = kKind == Normalization::kLayer;
  const auto mean = row_means<2>(width, [=](auto& sums, const auto& v) {
    const Simd normal = row.normalized(v.load(x, row.shift));
    const Simd upstream = v.load(dy, 0);
    const Simd g = upstream * v.load(weight);
    if constexpr (kLayer) sums[0] += g;
    sums[1] = fma(g, normal, sums[1]);
    if constexpr (kWantsWeights) v.store(fma(upstream, normal, v.load(weight_sums)), weight_sums);
    if constexpr (kWantsWeights && kLayer)
      v.store(v.load(weight_sums + width) + upstream, weight_sums + width);
  });
  if (dx == nullptr) return;
  const GradientLine line = gradient_line(row, mean[0], mean[1]);
  for_vectors(0, width, [=](const auto& v) {
    const Simd rest = fma(v.load(x) - Simd(row.shift), Simd(line.slope), Simd(line.constant));
    const Simd gradient = fma(v.load(dy) * v.load(weight), Simd(row.scale), rest);
    v.store(add_dx ? v.load(dx) + gradient : gradient, dx);
  });
}

void check_normalized(const char* op, const Variable& x, double epsilon) {
  check_argument(!x.shape().empty() && x.shape().back() > 0, op, ": x has shape ",
                 bracketed(x.shape()), ", expected [..., width] with a width above 0");
  check_norm_epsilon(op, epsilon);
}

// Returns `row` (the weight or bias called `name`) or, if not given, a row filled with `value`.
Variable row_or(const char* op, const char* name, const Variable& x,
                const std::optional<Variable>& row, real value) {
  const std::size_t width = x.shape().back();
  if (!row) return x.tape().constant(full({width}, value));
  check_argument(row->shape() == Shape{width}, op, ": ", name, " has shape ",
                 bracketed(row->shape()), ", expected [", width, "] for x of ",
                 bracketed(x.shape()));
  return *row;
}

// Records the op. `inputs` are x, the weight and, in layer normalization, the bias.
template <Normalization kKind>
Variable normalize_last_axis(OpName op, std::initializer_list<Variable> inputs, double epsilon) {
  constexpr std::size_t kInputs = kKind == Normalization::kLayer ? 3 : 2;
  const auto data = [&](std::size_t i) { return inputs.begin()[i].read().data(); };
  const Shape& shape = inputs.begin()->shape();
  const std::size_t width = shape.back();
  Tensor y = empty(shape);
  auto scalings = normalize_rows<kKind>(data(0), y.size() / width, width, data(1),
                                        kInputs > 2 ? data(2) : nullptr, epsilon, y.data());

  auto rule = [width, scalings = std::move(scalings)](Backward& node) {
    // dx is added to the gradient of x, or replaces the upstream gradient.
    Tensor upstream = node.take_gradient();
    const std::optional<Tensor> scaled = in_units(node.input(0), width, scalings);
    GradientSlot of_x = node.slot(0);
    const bool adds = !scaled && of_x.adds();
    const auto go_back = [&, x = (scaled ? *scaled : node.input(0)).data(),
                          weight = node.input(1).data(),
                          dx = !of_x  ? nullptr
                               : adds ? of_x.data()
                                      : upstream.data()]<bool kWantsWeights>() {
      return kernels::sum_of_rows(
          scalings.size(), kWantsWeights ? (kInputs - 1) * width : 0, width,
          [=, &scalings, dy = upstream.data()](std::size_t i, real* weight_sums) {
            backward_row<kKind, kWantsWeights>(x + i * width, dy + i * width, width, weight,
                                               scalings[i], weight_sums,
                                               dx != nullptr ? dx + i * width : nullptr, adds);
          });
    };
    const bool wants_weights = node.slot(1) || (kInputs > 2 && node.slot(2));
    const Tensor sums =
        wants_weights ? go_back.template operator()<true>() : go_back.template operator()<false>();
    if (scaled && of_x)  // converts the gradient of unit · x to the gradient of x
      for (std::size_t i = 0; i < scalings.size(); ++i) {
        real* const dx = upstream.data() + i * width;
        scale_row(dx, width, scalings[i].unit, dx);
      }
    if (!adds) of_x.take(std::move(upstream));
    for (std::size_t i = 1; i < kInputs; ++i) {
      GradientSlot slot = node.slot(i);
      if (!slot) continue;
      Tensor gradient = empty({width});
      std::copy_n(sums.data() + (i - 1) * width, width, gradient.data());
      slot.take(std::move(gradient));
    }
  };
  return record(op, inputs, std::move(y), std::move(rule));
}

}  // namespace

Variable layer_norm(const Variable& x, const std::optional<Variable>& weight,
                    const std::optional<Variable>& bias, double epsilon) {
  static constexpr char kName[] = "layer_norm";
  check_normalized(kName, x, epsilon);
  return normalize_last_axis<Normalization::kLayer>(
      kName, {x, row_or(kName, "weight", x, weight, 1), row_or(kName, "bias", x, bias, 0)},
      epsilon);
}

Variable rms_norm(const Variable& x, const std::optional<Variable>& weight, double epsilon) {
  static constexpr char kName[] = "rms_norm";
  check_normalized(kName, x, epsilon);
  return normalize_last_axis<Normalization::kRootMeanSquare>(
      kName, {x, row_or(kName, "weight", x, weight, 1)}, epsilon);
}

void check_norm_epsilon(const char* caller, double epsilon) {
  check_argument(std::isfinite(epsilon) && epsilon >= 0, caller, ": epsilon is ", epsilon,
                 ", expected a finite number >= 0");
}

}  // namespace rowgrad
