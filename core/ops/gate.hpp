#pragma once

// The gate of a memory.

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// For each row of the last axis, s = rms_norm(key, key_weight) · rms_norm(x, x_weight) / √width,
/// and then sigmoid(sign(s) √max(|s|, 1e-6)), whose gradient is 0 where |s| < 1e-6 (Cheng et al.
/// 2026, "Conditional Memory via Scalable Lookup", arXiv:2601.07372): key and x [..., width],
/// weights [width] → [..., 1]. Computed in double, for where s is near 0, rounding would be seen.
/// Throws std::invalid_argument for other shapes, a width of 0, and an epsilon that is negative or
/// not finite.
Variable memory_gate(const Variable& key, const Variable& x, const Variable& key_weight,
                     const Variable& x_weight, double epsilon = 1e-5);

}  // namespace rowgrad
