#pragma once

// Matrix products: the only code that calls BLAS's routines.

#include <cstddef>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::blas {

/// A factor [rows, columns] in memory that it does not own: row-major, or transposed and then
/// stored as [columns, rows].
struct ConstMatrix {
  const real* data;
  std::size_t rows;
  std::size_t columns;
  bool transposed = false;
};

struct Matrix {
  real* data;
  std::size_t rows;
  std::size_t columns;
};

/// The transpose of a matrix, without a copy.
inline ConstMatrix transposed(const ConstMatrix& matrix) {
  return {matrix.data, matrix.columns, matrix.rows, !matrix.transposed};
}

/// result = a · b + beta · result; `result` is not read if beta is 0. Throws std::invalid_argument
/// if the sizes do not match or exceed BLAS's 32-bit integers.
void gemm(const ConstMatrix& a, const ConstMatrix& b, const Matrix& result, real beta = 0);

}  // namespace rowgrad::blas
