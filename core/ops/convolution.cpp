#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/convolution.hpp>
#include <rowgrad/core/ops/convolution.hpp>

namespace rowgrad {
namespace {

using kernels::CausalConvolution;

// [width, kernel] → [kernel, width], the tap of the position itself first; and back.
Tensor taps_of(const Tensor& weight) {
  const std::size_t width = weight.shape()[0], kernel = weight.shape()[1];
  Tensor taps = empty({kernel, width});
  for (std::size_t c = 0; c < width; ++c)
    for (std::size_t k = 0; k < kernel; ++k)
      taps.data()[k * width + c] = weight.data()[c * kernel + kernel - 1 - k];
  return taps;
}
Tensor weight_of(const Tensor& taps) {
  const std::size_t kernel = taps.shape()[0], width = taps.shape()[1];
  Tensor weight = empty({width, kernel});
  for (std::size_t c = 0; c < width; ++c)
    for (std::size_t k = 0; k < kernel; ++k)
      weight.data()[c * kernel + kernel - 1 - k] = taps.data()[k * width + c];
  return weight;
}

}  // namespace

Variable causal_conv(const Variable& x, const Variable& weight, std::size_t dilation) {
  const Shape& shape = x.shape();
  check_argument(shape.size() >= 2 && weight.shape().size() == 2 &&
                     weight.shape()[0] == shape.back() && weight.shape()[1] > 0,
                 "causal_conv: x has shape ", bracketed(shape), " and weight ",
                 bracketed(weight.shape()),
                 ", expected [..., length, width] and [width, kernel] with a kernel above 0");
  const std::size_t kernel = weight.shape()[1];
  constexpr std::size_t kFarthest = std::size_t{1} << 31;
  check_argument(dilation > 0 && dilation < kFarthest && kernel < kFarthest / dilation,
                 "causal_conv: dilation is ", dilation, " for a kernel of ", kernel,
                 ", expected 1 or more, and to reach less than 2^31 positions back");
  const std::size_t width = shape.back();
  const std::size_t length = shape[shape.size() - 2];
  const std::size_t rows = width == 0 ? 0 : x.value().size() / width;
  const CausalConvolution conv{.batch = length == 0 ? 0 : rows / length,
                               .length = length,
                               .width = width,
                               .kernel = kernel,
                               .dilation = dilation};
  Tensor y = empty(shape);
  Tensor taps = taps_of(weight.value());
  kernels::convolve(conv, x.value().data(), taps.data(), y.data());
  return record(
      "causal_conv", {x, weight}, std::move(y), [conv, taps = std::move(taps)](Backward& node) {
        const Tensor& dy = node.gradient();
        if (node.needs(1))
          node.give(
              1, weight_of(kernels::convolve_taps_gradient(conv, node.input(0).data(), dy.data())));
        node.into(0, [&](real* dx, bool add) {
          kernels::convolve_backward(conv, dy.data(), taps.data(), dx, add);
        });
      });
}

}  // namespace rowgrad
