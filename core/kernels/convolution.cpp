#include <algorithm>
#include <functional>

#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/convolution.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad::kernels {
namespace {

// to += a ∘ b
void add_product(std::size_t width, real* to, const real* a, const real* b) {
  map_span(
      width, to, [](const Simd& sum, const Simd& x, const Simd& y) { return fma(x, y, sum); }, to,
      a, b);
}

// Calls body(index of the position among all, its place in its text) for each one, in parallel.
void for_each_position(const CausalConvolution& conv, const auto& body) {
  parallel_for(conv.batch * conv.length, row_grain(conv.width * conv.kernel),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) body(i, i % conv.length);
               });
}

}  // namespace

void convolve(const CausalConvolution& conv, const real* x, const real* taps, real* y) {
  const std::size_t width = conv.width;
  for_each_position(conv, [&](std::size_t i, std::size_t place) {
    map_span(width, y + i * width, std::multiplies<>(), taps, x + i * width);
    for (std::size_t k = 1; k < conv.kernel && k * conv.dilation <= place; ++k)
      add_product(width, y + i * width, taps + k * width, x + (i - k * conv.dilation) * width);
  });
}

void convolve_backward(const CausalConvolution& conv, const real* dy, const real* taps, real* dx,
                       bool add_dx) {
  const std::size_t width = conv.width;
  for_each_position(conv, [&](std::size_t i, std::size_t place) {
    if (!add_dx) std::fill_n(dx + i * width, width, real{0});
    for (std::size_t k = 0; k < conv.kernel && place + k * conv.dilation < conv.length; ++k)
      add_product(width, dx + i * width, taps + k * width, dy + (i + k * conv.dilation) * width);
  });
}

Tensor convolve_taps_gradient(const CausalConvolution& conv, const real* x, const real* dy) {
  const std::size_t width = conv.width;
  const std::size_t taps = conv.kernel * width;
  Tensor total = sum_of_rows(conv.batch * conv.length, taps, taps, [&](std::size_t i, real* sums) {
    for (std::size_t k = 0; k < conv.kernel && k * conv.dilation <= i % conv.length; ++k)
      add_product(width, sums + k * width, dy + i * width, x + (i - k * conv.dilation) * width);
  });
  total.reshape(Shape{conv.kernel, width});
  return total;
}

}  // namespace rowgrad::kernels
