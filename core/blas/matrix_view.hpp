#pragma once

#include <cstddef>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::blas {

/// A factor of a product, in memory that it does not own: entry (i, j) is
/// data[i · row_step + j · column_step]. Products take those of which one step is 1.
struct MatrixView {
  const real* data;                // entry (0, 0)
  std::size_t rows;                // of the factor, not of what is stored
  std::size_t columns;             // of the factor
  std::size_t row_step = columns;  // rows lie side by side
  std::size_t column_step = 1;     // from one column to the next

  /// Whether it is stored as [columns, rows]; and where an entry is.
  bool is_transposed() const { return column_step != 1; }
  const real* at(std::size_t row, std::size_t column) const {
    return data + row * row_step + column * column_step;
  }
};

/// The transpose of a matrix, without a copy.
inline MatrixView transposed(const MatrixView& x) {
  return {x.data, x.columns, x.rows, x.column_step, x.row_step};
}

}  // namespace rowgrad::blas
