#pragma once

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Each number becomes 0 with probability p and is divided by 1 − p otherwise (Srivastava et al.
/// 2014, in the inverted form, so that evaluation needs no scaling). Draws from the tape's random
/// numbers what PyTorch draws on CPUs without MKL: 64 bits a number, in the order of memory. p = 0
/// returns x itself and draws nothing. Throws std::invalid_argument for p outside [0, 1], and
/// std::logic_error for a tape without random numbers.
Variable dropout(const Variable& x, double p);

}  // namespace rowgrad
