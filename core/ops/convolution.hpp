#pragma once

// Convolutions along a text.

#include <cstddef>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// y[t, c] = Σ_j weight[c, j] · x[t − (kernel − 1 − j) · dilation, c], with zeros before the text:
/// x [..., length, width], weight [width, kernel] → the shape of x. Each channel has its own
/// weights (depthwise), and a position sees itself and earlier ones only (van den Oord et al. 2016,
/// "WaveNet"). As PyTorch's conv1d with groups = width, after padding (kernel − 1) · dilation
/// zeros. Throws std::invalid_argument for other shapes, a kernel or dilation of 0, and for a
/// kernel that would reach further back than 2^31 positions.
Variable causal_conv(const Variable& x, const Variable& weight, std::size_t dilation = 1);

}  // namespace rowgrad
