#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <strings.h>
#include <utility>

#include <cblas.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/blas/gemm.hpp>

extern "C" {
// OpenBLAS builds with several kernels export these functions, which no header declares. In other
// builds, they are null.
[[gnu::weak]] void gotoblas_dynamic_quit();
[[gnu::weak]] void gotoblas_dynamic_init();
[[gnu::weak]] void openblas_read_env();
}

namespace rowgrad::blas {
namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

bool reselected = false;
std::string better;  // Info::better

bool can_select() {
  return gotoblas_dynamic_quit != nullptr && gotoblas_dynamic_init != nullptr &&
         openblas_read_env != nullptr;
}

// Ignores case, because a build with a single kernel spells its name in capitals.
bool is_same_kernel(const std::string& a, const std::string& b) {
  return strcasecmp(a.c_str(), b.c_str()) == 0;
}

// Returns the kernel to select on this CPU, or an empty string if the current kernel cannot be
// replaced, or if no other kernel uses newer vector instructions of this CPU.
std::string newer_kernel() {
  const VectorLevel cpu = cpu_level();
  if (!can_select() || cpu < VectorLevel::kAvx2 || kernel_level(openblas_get_corename()) >= cpu)
    return "";
  return cpu == VectorLevel::kAvx512 ? "SkylakeX" : "Haswell";
}

// Returns true if no other thread can be in OpenBLAS. The other threads must be rowgrad's workers,
// which enter OpenBLAS only after prepare(), or OpenBLAS's own threads, which wait.
bool is_alone() {
  constexpr int kPosixThreads = 1;  // a build that starts its threads with the program
  const int own = openblas_get_parallel() == kPosixThreads ? openblas_get_num_threads() - 1 : 0;
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return !error && static_cast<std::size_t>(std::distance(begin(threads), end(threads))) <=
                       1 + worker_count() + static_cast<std::size_t>(own);
}

// Makes OpenBLAS select its kernel again, as if OPENBLAS_CORETYPE had named `kernel` at startup.
void reselect(const std::string& kernel) {
  std::optional<std::string> before;
  if (const char* value = std::getenv(kCoreVariable)) before = value;
  setenv(kCoreVariable, kernel.c_str(), 1);
  gotoblas_dynamic_quit();
  openblas_read_env();
  gotoblas_dynamic_init();
  if (before) {
    setenv(kCoreVariable, before->c_str(), 1);
  } else {
    unsetenv(kCoreVariable);
  }
}

}  // namespace

VectorLevel kernel_level(const std::string& kernel) {
  using enum VectorLevel;
  static const std::pair<const char*, VectorLevel> levels[] = {
      {"SkylakeX", kAvx512}, {"Cooperlake", kAvx512}, {"SapphireRapids", kAvx512},
      {"Haswell", kAvx2},    {"Zen", kAvx2},          {"Sandybridge", kAvx},
      {"Bulldozer", kAvx},   {"Piledriver", kAvx},    {"Steamroller", kAvx},
      {"Excavator", kAvx}};
  for (const auto& [name, level] : levels)
    if (is_same_kernel(kernel, name)) return level;
  return kBeforeAvx;
}

VectorLevel cpu_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return VectorLevel::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return VectorLevel::kAvx2;
  if (__builtin_cpu_supports("avx")) return VectorLevel::kAvx;
#endif
  return VectorLevel::kBeforeAvx;
}

bool select_kernel(const std::string& kernel) {
  if (!can_select()) return false;
  const std::string before = openblas_get_corename();
  reselect(kernel);
  if (is_same_kernel(openblas_get_corename(), kernel)) return true;
  reselect(before);  // OpenBLAS has chosen another kernel, because it does not know this name
  return false;
}

bool upgrade_kernel() {
  const std::string newer = newer_kernel();
  return !newer.empty() && (select_kernel(newer) || select_kernel("Haswell"));
}

void prepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv(kCoreVariable) == nullptr) {
      if (is_alone())
        reselected = upgrade_kernel();
      else
        better = newer_kernel();
    }
    // With an OpenMP build, this call would also limit the caller's own loops to one thread, so
    // gemm() sets the limit for each product instead.
    constexpr int kOpenMp = 2;
    if (openblas_get_parallel() != kOpenMp) openblas_set_num_threads(1);
  });
}

Info info() {
  prepare();
  return {.level = ROWGRAD_LEVEL,
          .kernel = openblas_get_corename(),
          .reselected = reselected,
          .better = better,
          .threads = thread_count()};
}

std::string describe() {
  const Info now = info();
  return concat(
      "level ", now.level, ", OpenBLAS kernel ", now.kernel,
      now.reselected ? " (selected by rowgrad)" : "",
      now.better.empty() ? "" : concat(" (", kCoreVariable, '=', now.better, " would be faster)"),
      ", ", now.threads, now.threads == 1 ? " thread" : " threads");
}

}  // namespace rowgrad::blas
