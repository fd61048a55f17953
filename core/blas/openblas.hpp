#pragma once

// The kernel and threads of OpenBLAS. It selects its kernel by CPU model number; on a CPU newer
// than itself it silently falls back to one without AVX, which is five times slower. Before the
// first product, rowgrad compares this selection with what the CPU reports and selects a better
// kernel if there is one. A kernel that the user named in OPENBLAS_CORETYPE is kept.

#include <string>

namespace rowgrad::blas {

struct Info {
  std::string kernel;       // OpenBLAS's name for it: "Haswell", "Zen", "SkylakeX" …
  bool reselected = false;  // whether rowgrad replaced OpenBLAS's own choice
  int threads = 1;          // threads that a large product uses
  std::string threading;    // "openmp", "pthread" or "sequential"
};

/// The kernel and threads in use.
Info info();

/// info() as one line: `OpenBLAS kernel Zen, 2 threads (openmp)`.
std::string describe();

/// Sets the number of threads for products and for rowgrad's own loops in this process; other
/// threads adopt it with their next product. Throws std::invalid_argument for a count below 1 and
/// std::runtime_error if there is not enough memory for them; nothing changes then.
void set_threads(int count);

/// Ensures that the kernel has been selected. gemm() calls it; it is cheap after the first call.
void prepare();

/// The newest vector instructions that a kernel uses, or that this CPU supports.
enum class VectorLevel { kBeforeAvx, kAvx, kAvx2, kAvx512 };
VectorLevel kernel_level(const std::string& kernel);
VectorLevel cpu_level();

/// Replaces a kernel that is older than the CPU with the best one available; returns whether it
/// did. prepare() calls it once. Must not run during a product.
bool upgrade_kernel();

/// Selects a kernel by OpenBLAS's name, as OPENBLAS_CORETYPE does at startup. Returns whether that
/// kernel is now in use; nothing changes if no kernel has that name or the library contains only
/// one kernel. Must not run during a product.
bool select_kernel(const std::string& kernel);

}  // namespace rowgrad::blas
