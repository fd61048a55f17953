#pragma once

// Matrix products: the only code that calls BLAS's routines.

#include <cstddef>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::blas {

enum class Transpose { kNo, kYes };

/// A row-major matrix in memory that it does not own, stored as `rows` × `columns`.
struct ConstMatrix {
  const real* data;
  std::size_t rows;
  std::size_t columns;
  Transpose transpose = Transpose::kNo;  // whether products use its transpose
};

struct Matrix {
  real* data;
  std::size_t rows;
  std::size_t columns;
};

/// The transpose of a matrix, without a copy.
inline ConstMatrix transposed(ConstMatrix matrix) {
  matrix.transpose = matrix.transpose == Transpose::kNo ? Transpose::kYes : Transpose::kNo;
  return matrix;
}

/// result = a · b + beta · result; `result` is not read if beta is 0. Throws std::invalid_argument
/// if the sizes do not match or exceed BLAS's 32-bit integers.
void gemm(const ConstMatrix& a, const ConstMatrix& b, const Matrix& result, real beta = 0);

}  // namespace rowgrad::blas
