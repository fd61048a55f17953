#pragma once

#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

// Both normalise each row of the last axis: x [..., width] → [..., width], weight and bias [width].
// Without a weight or bias, they are 1 and 0. Throws std::invalid_argument for x of rank 0 or width
// 0, for other shapes of weight and bias, and for an epsilon that is negative or not finite.

/// (x − mean) / sqrt(variance + epsilon) ∘ weight + bias, with the biased variance mean (x − mean)²
/// (Ba, Kiros & Hinton 2016, "Layer Normalization"). As exact for a large mean as for one of 0.
Variable layer_norm(const Variable& x, const std::optional<Variable>& weight = std::nullopt,
                    const std::optional<Variable>& bias = std::nullopt, double epsilon = 1e-5);

/// x / sqrt(mean x² + epsilon) ∘ weight (Zhang & Sennrich 2019, "Root Mean Square Layer
/// Normalization").
Variable rms_norm(const Variable& x, const std::optional<Variable>& weight = std::nullopt,
                  double epsilon = 1e-5);

/// Throws std::invalid_argument naming `caller` for an epsilon that is negative or not finite.
void check_norm_epsilon(const char* caller, double epsilon);

}  // namespace rowgrad
