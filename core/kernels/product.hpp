#pragma once

#include <rowgrad/core/blas/gemm.hpp>

namespace rowgrad::kernels {

/// What product() adds to a · b: one of two things, or nothing.
struct ProductOptions {
  const real* bias = nullptr;  // a value for each column, or null
  bool add = false;            // whether it adds what stands in the result
};

/// result = a · b, plus what the options say. Where b stays in the L2 cache, as with the weights of
/// small models, this reads `a` in place (panels.hpp): BLAS copies both factors and clears the
/// result first, which takes a fifth of the time of such a product. Other shapes go to blas::gemm.
/// Throws what that throws.
void product(const blas::MatrixView& a, const blas::MatrixView& b, const blas::Matrix& result,
             const ProductOptions& options = {});

}  // namespace rowgrad::kernels
