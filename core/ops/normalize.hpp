#pragma once

// Layer normalisation (Ba, Kiros & Hinton 2016) and root-mean-square normalisation (Zhang &
// Sennrich 2019) along the last axis, fused: see core/kernels/normalize.hpp.

#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// (x − mean) / sqrt(variance + epsilon) ∘ weight + bias, with the biased variance: x [..., width],
/// weight and bias [width] → the shape of x. Throws std::invalid_argument for other shapes and an
/// epsilon that is negative or not finite.
Variable layer_norm(const Variable& x, const Variable& weight,
                    const std::optional<Variable>& bias = std::nullopt, double epsilon = 1e-5);

/// x / sqrt(mean x² + epsilon) ∘ weight, with the same shapes. Throws the same.
Variable rms_norm(const Variable& x, const Variable& weight, double epsilon = 1e-5);

}  // namespace rowgrad
