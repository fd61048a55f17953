#include <algorithm>
#include <functional>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/ops/convolution.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

// A convolution with taps [kernel_size, width]: the transposed weight, so that a tap is contiguous.
struct CausalConvolution {
  std::size_t positions;  // number of positions in all sequences
  std::size_t length;     // number of positions in each sequence
  std::size_t width;
  std::size_t kernel_size;
  std::size_t dilation;

  // Returns the offset of the tap for the position k steps back.
  std::size_t tap(std::size_t k) const { return (kernel_size - 1 - k) * width; }

  // Returns the number of taps that fit into the sequence if `remaining` more positions follow.
  std::size_t reach(std::size_t remaining) const {
    return std::min(kernel_size, remaining / dilation + 1);
  }

  // Computes to[t] = Σ_k tap(k) ∘ from[t − k · dilation] if `forward`, else with from[t + k ·
  // dilation], for gradients. If `add`, adds to `to` instead.
  void convolve(const real* from, const real* taps, bool forward, real* to, bool add) const {
    kernels::parallel_for_each(positions, width * kernel_size, [=, *this](std::size_t i) {
      const std::size_t position = i % length;
      const std::size_t count = reach(forward ? position : length - 1 - position);
      for (std::size_t k = 0; k < count; ++k) {
        const real* const other = from + (forward ? i - k * dilation : i + k * dilation) * width;
        if (k == 0 && !add)
          kernels::map_span(width, to + i * width, std::multiplies<>(), taps + tap(k), other);
        else
          add_product(to + i * width, taps + tap(k), other);
      }
    });
  }

  // Returns the gradient of the taps, Σ_t dy[t] ∘ x[t − k · dilation].
  Tensor taps_gradient(const real* x, const real* dy) const {
    const std::size_t size = kernel_size * width;
    return reshaped(kernels::sum_of_rows(positions, size, size,
                                         [&](std::size_t i, real* sums) {
                                           const std::size_t count = reach(i % length);
                                           for (std::size_t k = 0; k < count; ++k)
                                             add_product(sums + tap(k), dy + i * width,
                                                         x + (i - k * dilation) * width);
                                         }),
                    {kernel_size, width});
  }

 private:
  void add_product(real* to, const real* a, const real* b) const {
    kernels::map_span(
        width, to, [](const Simd& sum, const Simd& x, const Simd& y) { return fma(x, y, sum); }, to,
        a, b);
  }
};

}  // namespace

Variable causal_conv(const Variable& x, const Variable& weight, std::size_t dilation) {
  const Shape& shape = x.shape();
  check_argument(shape.size() >= 2 && weight.shape().size() == 2 &&
                     weight.shape()[0] == shape.back() && weight.shape()[1] > 0,
                 "causal_conv: x has shape ", bracketed(shape), " and weight ",
                 bracketed(weight.shape()),
                 ", expected [..., length, width] and [width, kernel] with a kernel of at least 1");
  const std::size_t kernel_size = weight.shape()[1];
  constexpr std::size_t kFarthest = std::size_t{1} << 31;
  check_argument(dilation > 0 && dilation < kFarthest && kernel_size < kFarthest / dilation,
                 "causal_conv: dilation is ", dilation, " for a kernel of ", kernel_size,
                 ", expected at least 1 and kernel · dilation below 2^31");
  const std::size_t width = shape.back();
  const CausalConvolution conv{.positions = width == 0 ? 0 : x.value().size() / width,
                               .length = shape[shape.size() - 2],
                               .width = width,
                               .kernel_size = kernel_size,
                               .dilation = dilation};
  Tensor y = empty(shape);
  Tensor taps = permuted(weight.read(), {1, 0});
  conv.convolve(x.read().data(), taps.data(), true, y.data(), false);
  return record("causal_conv", {x, weight}, std::move(y),
                [conv, taps = std::move(taps)](Backward& node) {
                  const real* dy = node.gradient().data();
                  if (GradientSlot dweight = node.slot(1))
                    dweight.take(permuted(conv.taps_gradient(node.input(0).data(), dy), {1, 0}));
                  if (GradientSlot dx = node.slot(0))
                    conv.convolve(dy, taps.data(), false, dx.data(), dx.adds());
                });
}

}  // namespace rowgrad
