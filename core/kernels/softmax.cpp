#include <algorithm>
#include <cmath>
#include <limits>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/softmax.hpp>

namespace rowgrad::kernels {
namespace {

void for_each_row(std::size_t rows, std::size_t width, const auto& row) {
  // An exponential costs about as much as four simple operations.
  parallel_for(rows, row_grain(4 * width), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) row(i);
  });
}

real largest(const real* x, std::size_t count) {
  Simd most(-std::numeric_limits<real>::infinity());
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) most = max(most, Simd::load_unaligned(x + i));
  real result = largest_lane(most);
  for (; i < count; ++i) result = std::max(result, x[i]);
  return result;
}

double log_sum_exp(const real* x, std::size_t count) {
  const real most = largest(x, count);
  if (!std::isfinite(most)) {  // there is no NaN, or it was lost: max(NaN, −∞) is −∞
    const auto is_nan = [](real number) { return std::isnan(number); };
    return std::any_of(x, x + count, is_nan) ? std::numeric_limits<double>::quiet_NaN() : most;
  }
  const Simd shift(most);
  const real total = sum_span(
      count, [&](const Simd& v) { return exp(v - shift); }, x);
  return most + std::log(static_cast<double>(total));
}

// v − shift for a shift with more digits than a `real`. The rounded shift is subtracted first,
// which is exact if v is close to it, and then the rounding error of the shift.
class MinusDouble {
 public:
  explicit MinusDouble(double shift)
      : rounded_(static_cast<real>(shift)),
        rest_(static_cast<real>(std::isfinite(shift) ? shift - static_cast<real>(shift) : 0)) {}
  Simd operator()(const Simd& v) const { return (v - rounded_) - rest_; }

 private:
  Simd rounded_;
  Simd rest_;
};

}  // namespace

void log_sum_exp_rows(const real* x, std::size_t rows, std::size_t width, double* result) {
  for_each_row(rows, width, [&](std::size_t i) { result[i] = log_sum_exp(x + i * width, width); });
}

void log_sum_exp_rows_backward(const real* x, const double* log_sums, const real* dy,
                               std::size_t rows, std::size_t width, real* dx) {
  for_each_row(rows, width, [&](std::size_t i) {
    const MinusDouble minus_log_sum(log_sums[i]);
    const Simd factor(dy[i]);
    map_span(
        width, dx + i * width, [&](const Simd& v) { return exp(minus_log_sum(v)) * factor; },
        x + i * width);
  });
}

void softmax_rows(const real* x, std::size_t rows, std::size_t width, real* y) {
  for_each_row(rows, width, [&](std::size_t i) {
    const real* from = x + i * width;
    real* to = y + i * width;
    const Simd most(largest(from, width));
    map_span(
        width, to, [&](const Simd& v) { return exp(v - most); }, from);
    const Simd factor(1 / sum_span(
                              width, [](const Simd& v) { return v; }, to));
    map_span(
        width, to, [&](const Simd& v) { return v * factor; }, to);
  });
}

void softmax_rows_backward(const real* y, const real* dy, std::size_t rows, std::size_t width,
                           real* dx) {
  for_each_row(rows, width, [&](std::size_t i) {
    const std::size_t at = i * width;
    const Simd dot(sum_span(
        width, [](const Simd& a, const Simd& b) { return a * b; }, y + at, dy + at));
    map_span(
        width, dx + at, [&](const Simd& p, const Simd& g) { return p * (g - dot); }, y + at,
        dy + at);
  });
}

void log_softmax_rows(const real* x, std::size_t rows, std::size_t width, real* y) {
  for_each_row(rows, width, [&](std::size_t i) {
    const MinusDouble minus_log_sum(log_sum_exp(x + i * width, width));
    map_span(width, y + i * width, minus_log_sum, x + i * width);
  });
}

void log_softmax_rows_backward(const real* y, const real* dy, std::size_t rows, std::size_t width,
                               real* dx) {
  for_each_row(rows, width, [&](std::size_t i) {
    const std::size_t at = i * width;
    const Simd total(sum_span(
        width, [](const Simd& g) { return g; }, dy + at));
    map_span(
        width, dx + at, [&](const Simd& v, const Simd& g) { return g - exp(v) * total; }, y + at,
        dy + at);
  });
}

void cross_entropy_rows_backward(const real* logits, const double* log_sums,
                                 const std::int32_t* targets, const real* row_weights, real scale,
                                 std::size_t rows, std::size_t width, real* gradient) {
  for_each_row(rows, width, [&](std::size_t i) {
    real* to = gradient + i * width;
    if (row_weights[i] == 0) {
      std::fill_n(to, width, real{0});
      return;
    }
    const MinusDouble minus_log_sum(log_sums[i]);
    const real row_scale = row_weights[i] * scale;
    const Simd factor(row_scale);
    map_span(
        width, to, [&](const Simd& v) { return exp(minus_log_sum(v)) * factor; },
        logits + i * width);
    to[targets[i]] -= row_scale;
  });
}

}  // namespace rowgrad::kernels
