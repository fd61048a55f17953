#pragma once

#include <rowgrad/core/autograd/variable.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {

/// Each number becomes 0 with probability p and is divided by 1 − p otherwise (Srivastava et al.
/// 2014, in the inverted form, so that evaluation needs no scaling). Draws 32 bits of `random` a
/// number. p = 0 returns x itself and draws nothing. Throws std::invalid_argument for p outside
/// [0, 1].
Variable dropout(const Variable& x, double p, Random& random);

}  // namespace rowgrad
