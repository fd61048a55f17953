#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/softmax.hpp>

namespace rowgrad::kernels {
namespace {

// Calls row(i) for each row. An exponential costs about as much as four simple operations.
void for_each_row(std::size_t rows, std::size_t width, const auto& row) {
  parallel_for_each(rows, 4 * width, row);
}

real largest(const real* x, std::size_t count) {
  Simd most(-std::numeric_limits<real>::infinity());
  for_vectors(0, count, [x, &most](const auto& v) { most = max(most, v.load(x)); });
  return lanes::largest(most);
}

ExpSum exp_sum(const real* x, std::size_t count, real shift) {
  const real sum = sum_span(
      count, [shift = Simd(shift)](const Simd& v) { return exp(v - shift); }, x);
  return {shift, static_cast<double>(sum)};
}

// Computes exp(x − shift) · factor for a row.
void scaled_exp(const real* x, std::size_t width, real shift, double factor, real* to) {
  map_span(
      width, to,
      [shift = Simd(shift), factor = Simd(factor)](const Simd& v) {
        return exp(v - shift) * factor;
      },
      x);
}

}  // namespace

void exp_sum_rows(const real* x, std::size_t rows, std::size_t width, bool shift_is_finite,
                  ExpSum* sums) {
  for_each_row(rows, width, [&](std::size_t i) {
    const real most = largest(x + i * width, width);
    const bool shifts = std::isfinite(most) || !shift_is_finite;
    sums[i] = exp_sum(x + i * width, width, shifts ? most : 0);
  });
}

void log_sum_exp_rows_backward(const real* x, const ExpSum* sums, const real* dy, std::size_t rows,
                               std::size_t width, real* dx) {
  for_each_row(rows, width, [&](std::size_t i) {
    // If the sum is infinite, finite values get zero gradient.
    const double shift = std::isfinite(sums[i].sum) ? sums[i].shift : sums[i].sum;
    scaled_exp(x + i * width, width, static_cast<real>(shift), dy[i] / sums[i].sum, dx + i * width);
  });
}

void softmax_rows(const real* x, std::size_t rows, std::size_t width, real* y) {
  for_each_row(rows, width, [&](std::size_t i) {
    const real* from = x + i * width;
    real* to = y + i * width;
    const Simd most(largest(from, width));
    map_span(
        width, to, [&](const Simd& v) { return exp(v - most); }, from);
    const Simd factor(1 / sum_span(width, std::identity(), to));
    map_span(
        width, to, [&](const Simd& v) { return v * factor; }, to);
  });
}

void softmax_rows_backward(const real* y, const real* dy, std::size_t rows, std::size_t width,
                           real* dx) {
  for_each_row(rows, width, [&](std::size_t i) {
    const std::size_t at = i * width;
    const Simd dot(sum_span(width, std::multiplies<>(), y + at, dy + at));
    map_span(
        width, dx + at, [&](const Simd& p, const Simd& g) { return p * (g - dot); }, y + at,
        dy + at);
  });
}

void log_softmax_rows(const real* x, std::size_t rows, std::size_t width, real* y) {
  for_each_row(rows, width, [&](std::size_t i) {
    const real* from = x + i * width;
    const ExpSum row = exp_sum(from, width, largest(from, width));
    // Neither difference cancels: no value is above the shift, and no sum is below 1.
    map_span(
        width, y + i * width,
        [shift = Simd(row.shift), log_sum = Simd(std::log(row.sum))](const Simd& v) {
          return (v - shift) - log_sum;
        },
        from);
  });
}

void log_softmax_rows_backward(const real* y, const real* dy, std::size_t rows, std::size_t width,
                               real* dx) {
  for_each_row(rows, width, [&](std::size_t i) {
    const std::size_t at = i * width;
    const Simd total(sum_span(width, std::identity(), dy + at));
    map_span(
        width, dx + at, [&](const Simd& v, const Simd& g) { return fma(-exp(v), total, g); },
        y + at, dy + at);
  });
}

void cross_entropy_rows(const real* logits, const CrossEntropyRows& rows, double* losses) {
  const std::size_t width = rows.class_weights.size();
  parallel_for_each(rows.targets.size(), rows.smoothing == 0 ? 16 : width, [&](std::size_t i) {
    losses[i] = 0;
    if (rows.weights.data()[i] == 0) return;
    const real* row = logits + i * width;
    const ExpSum sum = rows.sums.empty() ? ExpSum{0, 1} : rows.sums[i];
    losses[i] = rows.of_target(i) * sum.above(row[rows.targets.data()[i]]);
    if (rows.smoothing == 0) return;
    const auto above = [shift = Simd(sum.shift), log_sum = Simd(std::log(sum.sum))](const Simd& x,
                                                                                    const Simd& w) {
      return select(w == 0, 0, w * ((shift - x) + log_sum));
    };
    losses[i] += rows.of_each(i) * sum_span(width, above, row, rows.class_weights.data());
  });
}

void cross_entropy_rows_backward(const real* logits, const CrossEntropyRows& rows, const real* dy,
                                 real* gradient) {
  const std::size_t width = rows.class_weights.size();
  const real* class_weights = rows.class_weights.data();
  const real total = rows.smoothing == 0 ? 0 : sum_span(width, std::identity(), class_weights);
  for_each_row(rows.targets.size(), width, [&](std::size_t i) {
    real* to = gradient + i * width;
    const bool is_masked = rows.weights.data()[i] == 0;
    if (is_masked || rows.sums.empty()) std::fill_n(to, width, real{0});
    if (is_masked) return;
    const real of_target = rows.of_target(i) * dy[i];
    const real of_each = rows.of_each(i) * dy[i];
    if (!rows.sums.empty())
      scaled_exp(logits + i * width, width, rows.sums[i].shift,
                 (of_target + of_each * total) / rows.sums[i].sum, to);
    if (of_each != 0)
      map_span(
          width, to, [&](const Simd& y, const Simd& w) { return fma(Simd(-of_each), w, y); }, to,
          class_weights);
    to[rows.targets.data()[i]] -= of_target;
  });
}

}  // namespace rowgrad::kernels
