#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <omp.h>
#include <optional>
#include <string_view>
#include <sys/mman.h>

#include <cblas.h>

#include <rowgrad/core/blas/openblas.hpp>
#include <rowgrad/core/tensor/check.hpp>

// Exported by OpenBLAS builds that contain several kernels, but declared in no header; null in
// other builds.
extern "C" {
[[gnu::weak]] void gotoblas_dynamic_quit();
[[gnu::weak]] void gotoblas_dynamic_init();
[[gnu::weak]] void openblas_read_env();
}

namespace rowgrad::blas {
namespace {

constexpr const char* kCoreVariable = "OPENBLAS_CORETYPE";
constexpr const char* kThreadsVariable = "OPENBLAS_NUM_THREADS";

bool reselected = false;
std::atomic<int> chosen_threads = 0;  // as passed to set_threads(); 0 if it was not called

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

// Whether there is address space for `count` more threads. OpenBLAS maps a buffer for each of them
// and retries forever if that fails.
bool room_for_threads(int count) {
  constexpr std::size_t kBytesEach = std::size_t{(128 + 8) << 20};  // a buffer and a stack
  if (count <= 0) return true;
  const std::size_t bytes = static_cast<std::size_t>(count) * kBytesEach;
  void* const space =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return space != MAP_FAILED && munmap(space, bytes) == 0;
}

}  // namespace

VectorLevel kernel_level(const std::string& kernel) {
  using enum VectorLevel;
  static const std::map<std::string_view, VectorLevel> levels{
      {"SkylakeX", kAvx512}, {"Cooperlake", kAvx512}, {"Sapphirerapids", kAvx512},
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
    // A program compiled by Clang brings LLVM's OpenMP runtime, which OpenBLAS then uses too. While
    // the program is being loaded, that runtime reports a single processor.
    if (openblas_get_num_procs() < omp_get_num_procs() && std::getenv(kThreadsVariable) == nullptr)
      openblas_set_num_threads(omp_get_max_threads());
  });
  // OpenMP has a thread count per thread, and OpenBLAS adopts that of the calling thread. If two
  // threads had different counts, each would make OpenBLAS rebuild buffers that the other is using.
  const int chosen = chosen_threads.load(std::memory_order_relaxed);
  if (chosen != 0 && omp_get_max_threads() != chosen) omp_set_num_threads(chosen);
}

Info info() {
  prepare();
  static constexpr std::array<const char*, 3> kThreading{"sequential", "pthread", "openmp"};
  return {.kernel = openblas_get_corename(),
          .reselected = reselected,
          .threads = std::min(openblas_get_num_threads(), omp_get_max_threads()),
          .threading = kThreading.at(static_cast<std::size_t>(openblas_get_parallel()))};
}

std::string describe() {
  const Info now = info();
  return concat("OpenBLAS kernel ", now.kernel, now.reselected ? " (selected by rowgrad)" : "",
                ", ", now.threads, now.threads == 1 ? " thread (" : " threads (", now.threading,
                ")");
}

void set_threads(int count) {
  check_argument(count >= 1, "set_threads: count ", count, " is below 1");
  prepare();
  check_runtime(room_for_threads(count - openblas_get_num_threads()),
                "set_threads: there is not enough memory for ", count, " threads");
  chosen_threads = count;
  omp_set_num_threads(count);
  openblas_set_num_threads(count);
}

}  // namespace rowgrad::blas
