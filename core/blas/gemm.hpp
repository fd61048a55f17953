#pragma once

// Matrix products: the one place that talks to BLAS.

#include <cstddef>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::blas {

enum class Transpose { kNo, kYes };

/// A row-major matrix in somebody else's memory, `rows` × `columns` as stored.
struct ConstMatrix {
  const real* data;
  std::size_t rows;
  std::size_t columns;
  Transpose transpose = Transpose::kNo;  // whether the product uses it transposed
};

struct Matrix {
  real* data;
  std::size_t rows;
  std::size_t columns;
};

/// The same matrix, used transposed.
inline ConstMatrix transposed(ConstMatrix matrix) {
  matrix.transpose = matrix.transpose == Transpose::kNo ? Transpose::kYes : Transpose::kNo;
  return matrix;
}

/// result = a · b + beta · result. Nothing of `result` is read when beta is 0. Throws
/// std::invalid_argument when the sizes do not fit together or exceed BLAS's 32-bit integers.
void gemm(const ConstMatrix& a, const ConstMatrix& b, const Matrix& result, real beta = 0);

}  // namespace rowgrad::blas
