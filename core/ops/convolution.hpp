#pragma once

// Convolutions along a sequence.

#include <cstddef>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Computes a depthwise causal convolution (van den Oord et al. 2016, "WaveNet"): y[t, c] = Σ_j
/// weight[c, j] · x[t − (kernel − 1 − j) · dilation, c], with zeros before the start. x [...,
/// length, width], weight [width, kernel] → the shape of x. Equals PyTorch's conv1d with groups =
/// width, after padding with (kernel − 1) · dilation zeros on the left. Throws
/// std::invalid_argument for other shapes, for a kernel or dilation of 0, and if kernel ≥ ⌊2^31 /
/// dilation⌋.
Variable causal_conv(const Variable& x, const Variable& weight, std::size_t dilation = 1);

}  // namespace rowgrad
