#pragma once

// Matrix products: the only code that calls BLAS's routines, and that chooses OpenBLAS's kernel.
//
// OpenBLAS selects its kernel by CPU model number; on a CPU newer than itself it silently falls
// back to one without AVX, which is five times slower. Before the first product, rowgrad compares
// this selection with what the CPU reports. If there is a better kernel, rowgrad selects it, unless
// the program has started threads, which could be in a product: then describe() says how the user
// selects it. A kernel that the user named in OPENBLAS_CORETYPE is kept.
//
// OpenBLAS's own threads are not used, even where a program calls it directly: gemm() cuts large
// products into ranges for the threads of core/base/threads.hpp, which loops and products share.

#include <cstddef>
#include <string>

#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::blas {

/// How vectors and products are computed.
struct Info {
  std::string level;        // what rowgrad was compiled for: "native", "x86-64-v3" …
  std::string kernel;       // OpenBLAS's name for it: "Haswell", "Zen", "SkylakeX" …
  bool reselected = false;  // whether rowgrad replaced OpenBLAS's own choice
  std::string better;       // what OPENBLAS_CORETYPE should name, or empty if `kernel` is right
  int threads = 1;          // of a large product: thread_count()
};

/// The level, kernel and threads in use.
Info info();

/// info() as one line: `level x86-64-v3, OpenBLAS kernel Zen, 2 threads`, or after the kernel
/// `(OPENBLAS_CORETYPE=SkylakeX would be faster)`.
std::string describe();

/// Ensures that the kernel has been selected, and that OpenBLAS has one thread. gemm() calls it; it
/// is cheap after the first call. Programs call it before they start threads or initialize MPI.
void prepare();

/// The newest vector instructions that a kernel uses, or that this CPU supports.
enum class VectorLevel { kBeforeAvx, kAvx, kAvx2, kAvx512 };
VectorLevel kernel_level(const std::string& kernel);  // OpenBLAS's name, in any case
VectorLevel cpu_level();

/// Replaces a kernel that is older than the CPU with the best one available; returns whether it
/// did. prepare() may call it once. Must not run during a product.
bool upgrade_kernel();

/// Selects a kernel by OpenBLAS's name, as OPENBLAS_CORETYPE does at startup. Returns whether that
/// kernel is now in use; nothing changes if no kernel has that name or the library contains only
/// one kernel. Must not run during a product.
bool select_kernel(const std::string& kernel);

/// A factor of a product, in memory that it does not own: entry (i, j) is
/// data[i · row_stride + j · column_stride]. Products take those of which one step is 1.
struct MatrixView {
  const real* data;                  // entry (0, 0)
  std::size_t rows;                  // of the factor, not of what is stored
  std::size_t columns;               // of the factor
  std::size_t row_stride = columns;  // rows lie side by side
  std::size_t column_stride = 1;     // from one column to the next

  /// Whether it is stored as [columns, rows]; and where an entry is.
  bool is_transposed() const { return column_stride != 1; }
  const real* at(std::size_t row, std::size_t column) const {
    return data + row * row_stride + column * column_stride;
  }
};

/// The transpose of a matrix, without a copy.
inline MatrixView transposed(const MatrixView& x) {
  return {x.data, x.columns, x.rows, x.column_stride, x.row_stride};
}

/// Where a result goes, row-major.
struct Matrix {
  real* data;           // the first element
  std::size_t rows;     // of the result
  std::size_t columns;  // of the result
};

/// result = a · b + beta · result; `result` is not read if beta is 0. Throws std::invalid_argument
/// if the sizes do not match or exceed BLAS's 32-bit integers, and for a factor without a step of 1
/// or whose rows overlap. A large product whose inner side is the longest is the sum of two halves:
/// this depends on the sizes alone, not on the number of threads, and takes memory of the result's
/// size. Throws std::bad_alloc if there is no room for this or for BLAS's buffers.
void gemm(const MatrixView& a, const MatrixView& b, const Matrix& result, real beta = 0);

}  // namespace rowgrad::blas
