#pragma once

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Sets each value to 0 with probability p and divides it by 1 − p otherwise (Srivastava et al.
/// 2014, in the inverted form, so that evaluation needs no scaling). Draws from the tape's random
/// numbers as PyTorch does on CPUs without MKL: 64 bits per value, in memory order. p = 0 returns x
/// itself and draws nothing. Throws std::invalid_argument for p outside [0, 1], and
/// std::logic_error for a tape without random numbers.
Variable dropout(const Variable& x, double p);

}  // namespace rowgrad
