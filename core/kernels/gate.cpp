#include <algorithm>
#include <array>
#include <cmath>

#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/gate.hpp>
#include <rowgrad/core/kernels/parallel.hpp>

namespace rowgrad::kernels {
namespace {

constexpr double kLeastScore = 1e-6;
constexpr std::size_t kRowsPerBlock = 32;  // whose gradients of the weights are summed first
constexpr std::size_t kSums = 8;           // side by side, which compilers turn into vectors

struct Products {
  double kk = 0, xx = 0, kx = 0;
};

Products products_of(const real* k, const real* x, std::size_t width, const double* weights) {
  std::array<double, kSums> kk{}, xx{}, kx{};
  std::size_t begin = 0;
  for (; begin + kSums <= width; begin += kSums)
    for (std::size_t j = 0; j < kSums; ++j) {
      const double a = k[begin + j], b = x[begin + j];
      kk[j] += a * a;
      xx[j] += b * b;
      kx[j] += a * b * weights[begin + j];
    }
  Products sums;
  for (std::size_t j = 0; j < kSums; ++j) {
    sums.kk += kk[j];
    sums.xx += xx[j];
    sums.kx += kx[j];
  }
  for (; begin < width; ++begin) {
    const double a = k[begin], b = x[begin];
    sums.kk += a * a;
    sums.xx += b * b;
    sums.kx += a * b * weights[begin];
  }
  return sums;
}

// g as a function of s; NaN for NaN.
double gate_of(double score) {
  const double root = std::sqrt(std::max(std::abs(score), kLeastScore));
  const double signed_root = score > 0 ? root : score < 0 ? -root : score;
  return 1 / (1 + std::exp(-signed_root));
}

double slope_of(double score, double gate) {
  return std::abs(score) < kLeastScore ? 0 : gate * (1 - gate) / (2 * std::sqrt(std::abs(score)));
}

}  // namespace

void gate_rows(const real* k, const real* x, std::size_t rows, std::size_t width,
               const double* weights, double epsilon, real* gates, GateRow* kept) {
  const double share = 1 / static_cast<double>(width);
  parallel_for(rows, row_grain(width), [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Products sums = products_of(k + i * width, x + i * width, width, weights);
      GateRow& row = kept[i];
      row.k_scale = 1 / std::sqrt(sums.kk * share + epsilon);
      row.x_scale = 1 / std::sqrt(sums.xx * share + epsilon);
      row.score = row.k_scale * row.x_scale * sums.kx * std::sqrt(share);
      gates[i] = static_cast<real>(gate_of(row.score));
    }
  });
}

// With a = ds · k_scale · x_scale / √width: dk = a (weights ∘ x) − ds · s · k_scale² / width · k,
// dx likewise, and the gradient of the weights is Σ a (k ∘ x).
void gate_rows_backward(const real* k, const real* x, std::size_t rows, std::size_t width,
                        const double* weights, const GateRow* kept, const real* gates,
                        const real* d_gates, const GateGradients& gradients) {
  const double share = 1 / static_cast<double>(width);
  const std::size_t blocks = (rows + kRowsPerBlock - 1) / kRowsPerBlock;
  Tensor sums = zeros({gradients.weights != nullptr ? blocks : 0, width});
  parallel_for(
      blocks, row_grain(kRowsPerBlock * width),
      [=, all_sums = sums.data()](std::size_t first, std::size_t last) {
        for (std::size_t i = first * kRowsPerBlock; i < std::min(rows, last * kRowsPerBlock); ++i) {
          const GateRow& row = kept[i];
          const double ds = static_cast<double>(d_gates[i]) * slope_of(row.score, gates[i]);
          const double factor = ds * row.k_scale * row.x_scale * std::sqrt(share);
          const double of_k = ds * row.score * row.k_scale * row.k_scale * share;
          const double of_x = ds * row.score * row.x_scale * row.x_scale * share;
          const real* const from_k = k + i * width;
          const real* const from_x = x + i * width;
          if (gradients.weights != nullptr)
            for (std::size_t c = 0; c < width; ++c)
              all_sums[i / kRowsPerBlock * width + c] += static_cast<real>(
                  factor * static_cast<double>(from_k[c]) * static_cast<double>(from_x[c]));
          if (gradients.k != nullptr)
            for (std::size_t c = 0; c < width; ++c)
              gradients.k[i * width + c] =
                  static_cast<real>(factor * weights[c] * static_cast<double>(from_x[c]) -
                                    of_k * static_cast<double>(from_k[c]));
          if (gradients.x != nullptr)
            for (std::size_t c = 0; c < width; ++c) {
              const double dx = factor * weights[c] * static_cast<double>(from_k[c]) -
                                of_x * static_cast<double>(from_x[c]);
              real& to = gradients.x[i * width + c];
              to = static_cast<real>(gradients.add_x ? static_cast<double>(to) + dx : dx);
            }
        }
      });
  if (gradients.weights == nullptr) return;
  const Tensor total = sum_along(sums, {true, false});
  std::copy_n(total.data(), width, gradients.weights);
}

}  // namespace rowgrad::kernels
