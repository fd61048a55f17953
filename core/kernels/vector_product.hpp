#pragma once

// Products with a vector as a factor, for stacks of many small products. They use each value of a
// matrix once, so calling BLAS would take longer than the arithmetic.

#include <rowgrad/core/blas/gemm.hpp>

namespace rowgrad::kernels {

/// Returns true if multiply_vector() can compute a · b faster than blas::gemm: for vectors times
/// matrices, matrices times vectors, and outer products, as long as one thread is enough. The
/// choice depends only on the sizes and the memory layout of the factors.
bool is_vector_product(const blas::MatrixView& a, const blas::MatrixView& b);

/// Computes result = a · b on the calling thread. Requires: is_vector_product(a, b).
void multiply_vector(const blas::MatrixView& a, const blas::MatrixView& b,
                     const blas::Matrix& result);

}  // namespace rowgrad::kernels
