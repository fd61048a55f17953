#pragma once

// What OpenBLAS runs with. OpenBLAS chooses its kernel by CPU model number, and on a CPU newer than
// itself it falls back, silently, to one that knows no AVX: five times slower. rowgrad compares the
// choice with what the CPU reports before the first product and selects a better kernel where there
// is one. A kernel that the user named in OPENBLAS_CORETYPE is kept.

#include <string>

namespace rowgrad::blas {

struct Info {
  std::string kernel;       // OpenBLAS's name of it: "Haswell", "Zen", "SkylakeX" …
  bool reselected = false;  // whether rowgrad replaced OpenBLAS's own choice
  int threads = 1;          // threads that a large product uses
  std::string threading;    // "openmp", "pthread" or "sequential"
};

/// The kernel and threads in use.
Info info();

/// `OpenBLAS kernel Zen, 2 threads (openmp)`: info() as a line to print.
std::string describe();

/// Threads for products and for rowgrad's own loops, in this process: other threads take the count
/// over with their next product. Throws std::invalid_argument for a count below 1, and
/// std::runtime_error where there is no memory for them; then nothing changes.
void set_threads(int count);

/// Makes sure that the kernel has been chosen. gemm() calls it; cheap after the first time.
void prepare();

/// The newest vector instructions that a kernel, or this CPU, uses.
enum class VectorLevel { kBeforeAvx, kAvx, kAvx2, kAvx512 };
VectorLevel kernel_level(const std::string& kernel);
VectorLevel cpu_level();

/// Replaces a kernel older than the CPU by the best that fits; returns whether it did. prepare()
/// runs it once. Must not run while a product is computed.
bool upgrade_kernel();

/// Selects a kernel by OpenBLAS's name, as OPENBLAS_CORETYPE does at start. Returns whether that
/// kernel is in use afterwards; if there is none of that name, or the library holds one alone,
/// nothing changes. Must not run while a product is computed.
bool select_kernel(const std::string& kernel);

}  // namespace rowgrad::blas
