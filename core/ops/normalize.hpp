#pragma once

// Normalization along the last axis: x [..., width] → [..., width], weight and bias [width]. The
// default weight is 1, the default bias 0. Other shapes, a width of 0, and an epsilon that is
// negative or not finite throw std::invalid_argument.

#include <optional>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Computes (x − mean) / sqrt(variance + epsilon) ∘ weight + bias, with the biased variance mean (x
/// − mean)² (Ba, Kiros & Hinton 2016, "Layer Normalization"). Large means and huge or tiny values
/// do not reduce accuracy.
Variable layer_norm(const Variable& x, const std::optional<Variable>& weight = std::nullopt,
                    const std::optional<Variable>& bias = std::nullopt, double epsilon = 1e-5);

/// Computes x / sqrt(mean x² + epsilon) ∘ weight (Zhang & Sennrich 2019, "Root Mean Square Layer
/// Normalization").
Variable rms_norm(const Variable& x, const std::optional<Variable>& weight = std::nullopt,
                  double epsilon = 1e-5);

/// Throws std::invalid_argument unless epsilon is finite and not negative.
void check_norm_epsilon(const char* caller, double epsilon);

}  // namespace rowgrad
