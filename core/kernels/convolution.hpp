#pragma once

// A causal convolution along the length of texts, of each channel by itself (depthwise), with gaps
// of `dilation` positions (van den Oord et al. 2016, "WaveNet"):
//
//   y[t, c] = Σ_k taps[k, c] · x[t − k · dilation, c]      over k < kernel, x = 0 before the text
//
// taps[0] is that of the position itself. Arrays are [batch, length, width]; taps [kernel, width].

#include <cstddef>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

struct CausalConvolution {
  std::size_t batch;
  std::size_t length;
  std::size_t width;
  std::size_t kernel;
  std::size_t dilation;
};

void convolve(const CausalConvolution& conv, const real* x, const real* taps, real* y);

/// dx[t] = Σ_k taps[k] ∘ dy[t + k · dilation], added to what stands there or not.
void convolve_backward(const CausalConvolution& conv, const real* dy, const real* taps, real* dx,
                       bool add_dx);

/// Σ dy[t] ∘ x[t − k · dilation] over all positions: [kernel, width]. Positions are summed in
/// blocks of a fixed size, so that bits do not depend on the number of threads.
Tensor convolve_taps_gradient(const CausalConvolution& conv, const real* x, const real* dy);

}  // namespace rowgrad::kernels
