#pragma once

#include <rowgrad/core/blas/gemm.hpp>

namespace rowgrad::kernels {

/// result = a · b + bias in each row, if there is a bias. Where b stays in the L2 cache, as with
/// the weights of small models, this reads `a` in place (panels.hpp): BLAS copies both factors and
/// clears the result first, which takes a fifth of the time of such a product. Other shapes go to
/// blas::gemm. Throws what that throws.
void product(const blas::ConstMatrix& a, const blas::ConstMatrix& b, const blas::Matrix& result,
             const real* bias = nullptr);

}  // namespace rowgrad::kernels
