#pragma once

// Matrix products. Only this module calls BLAS routines and chooses OpenBLAS's kernel.
//
// OpenBLAS selects its kernel by CPU model number. On a CPU newer than itself, it falls back
// to a kernel without AVX, which is five times slower. Before the first product, rowgrad
// compares this selection with what the CPU reports, and selects a better kernel if there is one.
// If the program has started threads, which could be computing products, rowgrad only reports the
// better kernel in describe(). A kernel that the user named in OPENBLAS_CORETYPE is kept.
//
// gemm() does not use OpenBLAS's threads. Direct calls to OpenBLAS do not either, unless OpenBLAS
// was built on OpenMP. gemm() cuts large products into ranges for the threads of
// core/base/threads.hpp.

#include <cstddef>
#include <string>

#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::blas {

/// The instruction set, kernel and threads in use.
struct Info {
  std::string level;        // instruction set of this build: "native", "x86-64-v3" …
  std::string kernel;       // OpenBLAS's name: "Haswell", "Zen", "SkylakeX" …
  bool reselected = false;  // true if rowgrad replaced OpenBLAS's choice
  std::string better;       // a better kernel for OPENBLAS_CORETYPE, or empty
  int threads = 1;          // thread_count()
};

/// Returns the level, kernel and threads in use.
Info info();

/// Returns info() as one line: `level x86-64-v3, OpenBLAS kernel Zen, 2 threads`. A better kernel
/// follows `Zen`: `(OPENBLAS_CORETYPE=SkylakeX would be faster)`.
std::string describe();

/// Selects the kernel, and sets OpenBLAS to one thread unless it was built on OpenMP. gemm() calls
/// prepare(), which is cheap after the first call. Call it before you start threads or initialize
/// MPI.
void prepare();

/// The newest vector instructions that a kernel uses or a CPU supports.
enum class VectorLevel { kBeforeAvx, kAvx, kAvx2, kAvx512 };

/// Returns the level of a kernel, given OpenBLAS's name in upper or lower case.
VectorLevel kernel_level(const std::string& kernel);

/// Returns the level of this CPU.
VectorLevel cpu_level();

/// Selects a better kernel for the CPU if there is one. Returns true if the kernel was replaced.
/// Must not run during a product.
bool upgrade_kernel();

/// Selects a kernel by OpenBLAS's name, as OPENBLAS_CORETYPE does at startup. Returns true if that
/// kernel is now in use. Nothing changes if no kernel has that name or the library contains only
/// one kernel. Must not run during a product.
bool select_kernel(const std::string& kernel);

/// A view of a factor of a product: element (i, j) is data[i · row_stride + j · column_stride].
/// Products require one stride to be 1.
struct MatrixView {
  const real* data;                  // element (0, 0)
  std::size_t rows;                  // rows of the factor, even if stored transposed
  std::size_t columns;               // columns of the factor
  std::size_t row_stride = columns;  // distance between rows
  std::size_t column_stride = 1;     // distance between columns

  /// Returns true if the factor is stored as [columns, rows].
  bool is_transposed() const { return column_stride != 1; }

  /// Returns the address of an element.
  const real* at(std::size_t row, std::size_t column) const {
    return data + row * row_stride + column * column_stride;
  }
};

/// Returns the transpose of a matrix, without a copy.
inline MatrixView transposed(const MatrixView& x) {
  return {x.data, x.columns, x.rows, x.column_stride, x.row_stride};
}

/// The destination of a product, row-major.
struct Matrix {
  real* data;
  std::size_t rows;
  std::size_t columns;
};

/// Computes result = a · b + beta · result; `result` is not read if beta is 0. A large product
/// whose inner dimension is the longest is computed as the sum of two halves, which takes memory of
/// the result's size. This choice depends only on the sizes, not on the number of threads. Throws
/// std::invalid_argument if the sizes do not match or exceed BLAS's 32-bit integers, and for a
/// factor without a stride of 1 or with overlapping rows. Throws std::bad_alloc if memory runs out.
void gemm(const MatrixView& a, const MatrixView& b, const Matrix& result, real beta = 0);

}  // namespace rowgrad::blas
