#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include <cblas.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/blas/gemm.hpp>

extern "C" {
// Exported by OpenBLAS builds that contain several kernels, but declared in no header; null in
// other builds.
[[gnu::weak]] void gotoblas_dynamic_quit();
[[gnu::weak]] void gotoblas_dynamic_init();
[[gnu::weak]] void openblas_read_env();
}

namespace rowgrad::blas {
namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";

bool reselected = false;

// Makes OpenBLAS select its kernel again as if OPENBLAS_CORETYPE had named this one at startup.
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
  static const std::map<std::string_view, VectorLevel> levels{
      {"SkylakeX", kAvx512}, {"Cooperlake", kAvx512}, {"SapphireRapids", kAvx512},
      {"Haswell", kAvx2},    {"Zen", kAvx2},          {"Sandybridge", kAvx},
      {"Bulldozer", kAvx},   {"Piledriver", kAvx},    {"Steamroller", kAvx},
      {"Excavator", kAvx}};
  const auto found = levels.find(kernel);
  return found == levels.end() ? kBeforeAvx : found->second;
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
  if (gotoblas_dynamic_quit == nullptr || gotoblas_dynamic_init == nullptr ||
      openblas_read_env == nullptr)
    return false;
  const std::string before = openblas_get_corename();
  reselect(kernel);
  if (openblas_get_corename() == kernel) return true;
  reselect(before);  // OpenBLAS has replaced the unknown name by a kernel of its own choice
  return false;
}

bool upgrade_kernel() {
  const VectorLevel cpu = cpu_level();
  if (cpu < VectorLevel::kAvx2 || kernel_level(openblas_get_corename()) >= cpu) return false;
  return (cpu == VectorLevel::kAvx512 && select_kernel("SkylakeX")) || select_kernel("Haswell");
}

void prepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv(kCoreVariable) == nullptr) reselected = upgrade_kernel();
    // A build on OpenMP would take the caller's other loops down to one thread, too; gemm() sees to
    // such builds.
    constexpr int kOpenMp = 2;
    if (openblas_get_parallel() != kOpenMp) openblas_set_num_threads(1);
  });
}

Info info() {
  prepare();
  return {.level = ROWGRAD_LEVEL,
          .kernel = openblas_get_corename(),
          .reselected = reselected,
          .threads = thread_count()};
}

std::string describe() {
  const Info now = info();
  return concat("level ", now.level, ", OpenBLAS kernel ", now.kernel,
                now.reselected ? " (selected by rowgrad)" : "", ", ", now.threads,
                now.threads == 1 ? " thread" : " threads");
}

}  // namespace rowgrad::blas
